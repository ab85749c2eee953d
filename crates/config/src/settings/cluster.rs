//! Settings of a cluster: nodes that share the budgets of pools through etcd.

use weir_base::Span;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::{Effect, Field, Section::Cluster, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Cluster,
        "etcd",
        Kind::Origins,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.cluster.etcd)),
        "The addresses of etcd, as `http://HOST:PORT` or `https://HOST:PORT`. Without one there is no cluster. With \
         one, the `size` of a pool (or its `max_db_connections`) is the most server connections of all nodes.",
    )
    .ini_own("cluster_etcd")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "name",
        Kind::Text,
        "weir",
        Field::Config(|c| FieldMut::Line(&mut c.cluster.name)),
        "The name of the cluster: its keys in etcd begin with `/weir/NAME/`.",
    )
    .ini_own("cluster_name")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "node",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.cluster.node)),
        "The name of this node, which no other node of the cluster has. Default: the name of the machine, which in a container is \
         the pod's.",
    )
    .ini_own("cluster_node")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "address",
        Kind::Host,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.cluster.address)),
        "The host, or IP address, at which the other nodes reach this one, at its listen port, to pass requests to cancel on. \
         Without it, it is the first address that Weir listens on, if that is not `*`. A `peer_id` in `[process]` turns \
         this off: then `[peers]` says who is where.",
    )
    .ini_own("cluster_address")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "floor",
        Kind::Number { min: 0, max: 1_000_000 },
        "1",
        Field::Config(|c| FieldMut::U32(&mut c.cluster.floor)),
        "How many server connections of each pool this node has reserved, also when it can't reach etcd. With 0 it can't end \
         a lost node's connections while it has none of its own.",
    )
    .ini_own("cluster_floor")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "lease",
        Kind::Time { min: Span::from_secs(2) },
        "10s",
        Field::Config(|c| FieldMut::Span(&mut c.cluster.lease)),
        "How long a node's shares are valid without a renewal; all nodes must have the same.",
    )
    .ini_own("cluster_lease")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "state",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.state)),
        "The file in which the node keeps its floors, for a start without etcd. Without it, it waits for etcd. The last good \
         configuration that nodes share is in a file beside it, with `.settings` appended.",
    )
    .ini_own("cluster_state")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "user",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.cluster.user)),
        "The user of etcd, if etcd has users.",
    )
    .ini_own("cluster_user")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "password_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.password_file)),
        "The file with its password.",
    )
    .ini_own("cluster_password_file")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "ca_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.ca_file)),
        "The authorities that etcd's certificate is checked against, PEM. Default: those of the operating system.",
    )
    .ini_own("cluster_ca_file")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "cert_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.cert_file)),
        "The certificate that this node shows to etcd, PEM. If etcd has users, it must have no common name (CN): etcd's interface \
         for JSON refuses one that does.",
    )
    .ini_own("cluster_cert_file")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "key_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.key_file)),
        "Its private key, PEM.",
    )
    .ini_own("cluster_key_file")
    .effect(Effect::Restart),
    Setting::new(
        Cluster,
        "secrets_key_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.cluster.secrets_key_file)),
        "The file with the key that encrypts secrets of the configuration that nodes share, made by `weir cluster key`; the same on \
         all nodes, and nobody but its owner may read it. Each line is a key: the first one encrypts, all decrypt. The file is read when it is needed, \
         so a change of it needs no restart.",
    )
    .ini_own("cluster_secrets_key_file")
    .effect(Effect::Restart),
];
