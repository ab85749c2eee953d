//! The table of the articles, and its content.

use weir_pglocal::Server;

use crate::lab::Lab;
use crate::servers::{USER, start_postgres};
use crate::steps::LabError;

use super::plan::MAX_CONNECTIONS;

/// The database's name, and that of Weir's pool.
pub(crate) const DATABASE: &str = "products";

const TABLE: &str = "CREATE TABLE IF NOT EXISTS products (
  id SERIAL PRIMARY KEY, name VARCHAR(255) NOT NULL,
  price NUMERIC(10,2) NOT NULL, description TEXT)";

/// 1,000 distinct products, repeated; a reply with 1,000 of them has about 87 kB, as in the articles.
const FILL: &str = "INSERT INTO products (name, price, description)
SELECT how[1 + n % 10] || ' ' || made[1 + n / 10 % 10] || ' ' || thing[1 + n / 100],
       5 + n * 7919 % 50000 / 100.0, words[1 + (n * 7 + n / 10) % 10]
FROM generate_series(1, $COPIES) AS copy, generate_series(0, 999) AS n,
 (SELECT
  ARRAY['Small','Sturdy','Foldable','Handmade','Plain','Light','Striped','Travel','Garden','Painted'] AS how,
  ARRAY['Bamboo','Cotton','Oak','Copper','Linen','Glass','Steel','Cork','Wool','Clay'] AS made,
  ARRAY['Lamp','Basket','Chair','Kettle','Tray','Mug','Stool','Shelf','Bowl','Clock'] AS thing,
  ARRAY['Made to last.','Ships in a day.','A kitchen classic.','Easy to clean.','Two years guaranteed.',
        'Repairable at home.','Our bestseller.','Limited edition.','Fits every room.','Back in stock.'] AS words) AS w
ORDER BY copy, n";

/// Starts a server with this many products. None of its connections is kept for the superuser, so that an ordinary user
/// can
/// have all 100, as the articles' could.
pub(crate) fn server(lab: &Lab, rows: u32) -> Result<Server, LabError> {
    let server = start_postgres(lab, MAX_CONNECTIONS, DATABASE, &[("superuser_reserved_connections", "0")])?;
    lab.doing("filling the table");
    let fill = FILL.replace("$COPIES", &(rows / 1000).to_string());
    let owner = format!("SET ROLE {USER}");
    // Read once, so that the first request does not pay for it.
    let statements = [owner.as_str(), TABLE, &fill, "ANALYZE products", "SELECT count(*) FROM products"];
    let mut connection = server.superuser_connection(DATABASE)?;
    for statement in statements {
        connection.query(statement)?;
    }
    Ok(server)
}
