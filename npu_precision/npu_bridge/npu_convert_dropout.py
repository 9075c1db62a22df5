"""npu_bridge's npu_convert_dropout: its import gives Keras' Dropout layers an op of the NPU.

Here they stay as they are, which compute the same: nothing is converted.
"""
