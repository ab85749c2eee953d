//! How a message leaves: the request, and the function that sends it, which the program provides.

use std::sync::Arc;

/// A message to a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookRequest {
    /// The address.
    pub url: String,
    /// The body, JSON.
    pub body: String,
}

/// Sends a request, and returns the status of the answer, or why there is none. Blocks, with a timeout of its own.
pub type SendWebhook = Arc<dyn Fn(&WebhookRequest) -> Result<u16, String> + Send + Sync>;
