"""Networks in torch: the trunk on each device, the classifiers, the codec between them, and their training."""
