"""Commands of the museum of planted bugs: `staticfire bugs` and `staticfire reproduce`."""
