"""The whole path on a real control plane: what users do, and what they then see."""
