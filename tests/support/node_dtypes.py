"""Reads the dtypes of a NodeDef according to its OpDef."""

import tensorflow as tf

from npu_precision._tf_compat import op_definition


def dtype_name(dtype):
    """ "float32" for the enum's DT_FLOAT, and so on."""
    return tf.as_dtype(dtype).name


def any_float(dtypes):
    return any(tf.as_dtype(dtype).is_floating for dtype in dtypes)


def attributes(node):
    """The attributes of a node's OpDef; none if the op is the name of a function."""
    definition = op_definition(node.op)
    return definition.attr if definition else []


def attribute_value(node, attribute):
    """A node's value of an attribute of its OpDef, or the default."""
    return node.attr.get(attribute.name, attribute.default_value)


def type_attributes(node):
    """Each type attribute of a node, in the OpDef's order, with its dtypes (one, or a list's)."""
    types = {}
    for attribute in attributes(node):
        value = attribute_value(node, attribute)
        if attribute.type == "type":
            types[attribute.name] = [value.type]
        elif attribute.type == "list(type)":
            types[attribute.name] = list(value.list.type)
    return {name: dtypes for name, dtypes in types.items() if any(dtypes)}


def output_dtypes(node):
    """The dtype of each output of a node; unknown if the op is the name of a function."""
    definition = op_definition(node.op)
    if definition is None:
        return []
    values = {attribute.name: attribute_value(node, attribute) for attribute in attributes(node)}
    dtypes = []
    for argument in definition.output_arg:
        if argument.type_list_attr:
            dtypes += values[argument.type_list_attr].list.type
            continue
        dtype = values[argument.type_attr].type if argument.type_attr else argument.type
        if argument.is_ref:
            dtype = tf.as_dtype(dtype)._as_ref.as_datatype_enum
        dtypes += [dtype] * (values[argument.number_attr].i if argument.number_attr else 1)
    return dtypes
