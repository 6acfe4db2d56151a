"""Import requests on files, without the calls that open them."""
