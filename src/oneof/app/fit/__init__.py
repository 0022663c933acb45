"""What `oneof fit` does besides training: reading, choosing, estimating, writing what came out."""
