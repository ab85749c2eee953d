module weir/tests/drivers/lib-pq

go 1.22

require (
	github.com/lib/pq v1.12.3
	weir/tests/drivers/shared v0.0.0
)

replace weir/tests/drivers/shared => ../shared/go
