"""The commands of `weir`, one module each; only `handlers.__main__` imports them."""
