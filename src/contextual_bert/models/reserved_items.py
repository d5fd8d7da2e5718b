"""Name the items that no set holds: padding, the mask, and what the vocabulary lacks. Their ids are the first."""

PAD, MASK, UNKNOWN = "[PAD]", "[MASK]", "[UNK]"
RESERVED_ITEMS = (PAD, MASK, UNKNOWN)
