"""Folders of tensors that runs wrote, matched and compared."""
