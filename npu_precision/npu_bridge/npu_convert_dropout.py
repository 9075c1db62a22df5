"""npu_bridge's npu_convert_dropout, whose import gives Keras' Dropout layers an op of the NPU.

Nothing is converted here, because Keras' own layers compute the same.
"""
