"""npu_bridge's npu_convert_dropout, whose import gives Keras' Dropout layers an op of the NPU.

Here the layers stay as they are, which compute the same: nothing is converted.
"""
