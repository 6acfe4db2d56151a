"""Read and write operations as text; any trace can be written as such text and read back."""
