//! A round trip by iceoryx2's request-response, polled on both sides; with the feature `iceoryx2` only.
//!
//! Invariant: both ends close their ports, so that none of their files is left.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use iceoryx2::port::client::Client;
use iceoryx2::port::server::Server as Port;
use iceoryx2::prelude::{Node, NodeBuilder, ipc};
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::request_response::PortFactory;
use nix::unistd::{Pid, getpid, getppid};

use crate::processes::peer::{Peer, Slot};
use crate::processes::poll::Poll;
use crate::processes::server::{Server, Service};
use crate::transports::floor::parent_kills;
use crate::transports::transport::Transport;
use crate::{Contender, Result, Size};

type Factory = PortFactory<ipc::Service, u64, (), u64, ()>;

/// How long the server may take to open its port.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The row.
pub(super) const TRANSPORT: Transport = Transport {
    word: "iceoryx2",
    has_sizes: false,
    row_name: |_, _| Iceoryx::NAME.to_owned(),
    start: |setting| Ok(Box::new(Iceoryx::new(setting.peer)?)),
};
/// No descriptor: the two ends find each other by the number of the caller's process.
pub(super) const SERVICE: Service =
    Service { name: "iceoryx2", make: |parts| Ok(Box::new(IceoryxServer::open(parts.poll)?)) };

/// A number sent there and one received back.
#[derive(Debug)]
pub(crate) struct Iceoryx {
    client: Client<ipc::Service, u64, (), u64, ()>,
    _service: Factory,
    _node: Node<ipc::Service>,
    slot: Slot,
    number: u64,
}

impl Iceoryx {
    pub(crate) fn new(peer: &Rc<Peer>) -> Result<Iceoryx> {
        let (node, service) = open(getpid())?;
        let client = service.client_builder().create()?;
        let slot = peer.install(&SERVICE, Size::WORD, &[])?;
        // A request that is sent before there is a server is lost.
        let start = Instant::now();
        while service.dynamic_config().number_of_servers() == 0 {
            slot.check_lives()?;
            if start.elapsed() > TIMEOUT {
                return Err(format!("no iceoryx2 server after {TIMEOUT:?}").into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Iceoryx { client, _service: service, _node: node, slot, number: 0 })
    }
}

impl Iceoryx {
    /// The name of the row.
    pub(crate) const NAME: &str = "iceoryx2";
}

impl Contender for Iceoryx {
    fn name(&self) -> &str {
        Iceoryx::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        self.number += 1;
        let pending = self.client.send_copy(self.number)?;
        let answer = Cell::new(None);
        self.slot.poll_until(|| match pending.receive() {
            Ok(None) => false,
            received => {
                answer.set(Some(received));
                true
            }
        })?;
        match answer.into_inner().transpose()?.flatten() {
            Some(response) if *response.payload() == self.number => Ok(()),
            other => Err(format!("call {} came back as {other:?}", self.number).into()),
        }
    }
}

/// The other side of [`Iceoryx`].
#[derive(Debug)]
pub(crate) struct IceoryxServer {
    port: Port<ipc::Service, u64, (), u64, ()>,
    _service: Factory,
    _node: Node<ipc::Service>,
    poll: Poll,
}

impl IceoryxServer {
    pub(crate) fn open(poll: Poll) -> Result<IceoryxServer> {
        let (node, service) = open(getppid())?;
        let port = service.server_builder().create()?;
        Ok(IceoryxServer { port, _service: service, _node: node, poll })
    }
}

impl Server for IceoryxServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            let request = Cell::new(None);
            let receive = || match self.port.receive() {
                Ok(None) => false,
                received => {
                    request.set(Some(received));
                    true
                }
            };
            self.poll.until(receive, parent_kills)?;
            if let Some(request) = request.into_inner().transpose()?.flatten() {
                request.send_copy(*request.payload())?;
            }
        }
        Ok(())
    }
}

/// The service of the contest that `caller` runs.
fn open(caller: Pid) -> Result<(Node<ipc::Service>, Factory)> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let name = format!("farcall-bench/{caller}");
    let service = node.service_builder(&name.as_str().try_into()?);
    let service = service.request_response::<u64, u64>().open_or_create()?;
    Ok((node, service))
}
