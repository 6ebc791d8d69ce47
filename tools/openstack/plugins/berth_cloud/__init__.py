"""What nova-compute and Neutron load in a cloud whose guests do not exist; installed beside them."""
