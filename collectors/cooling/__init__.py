"""A rack's cooling and power: Redfish controllers and the building's own values."""
