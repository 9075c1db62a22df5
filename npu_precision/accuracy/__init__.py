"""What a precision does to the numbers: a model is run in two precisions and compared."""
