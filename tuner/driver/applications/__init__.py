"""Unmodified applications: recording their launches, and putting a winner back."""
