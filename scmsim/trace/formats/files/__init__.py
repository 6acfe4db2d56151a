"""Import formats that record requests on files but not the calls that open the files."""
