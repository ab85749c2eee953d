module weir/tests/drivers/shared

go 1.22
