"""Import block traces: requests on devices."""
