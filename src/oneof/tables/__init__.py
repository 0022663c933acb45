"""Every file of rows: read in batches, written whole, imported from what people have."""
