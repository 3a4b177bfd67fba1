"""What a rack's cooling and power say."""
