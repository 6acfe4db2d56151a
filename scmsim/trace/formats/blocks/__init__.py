"""Block traces: requests on devices."""
