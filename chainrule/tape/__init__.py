"""Automatic differentiation on NumPy. Importing any part of it gives values their operators."""

from chainrule.tape import arithmetic as arithmetic
from chainrule.tape import modules as modules
from chainrule.tape import shapes as shapes
