// A program for mpirun and for smpirun that tests the guarantees of ranks of MPI:
//   contract   every rank checks the transport and a sum; prints "ok"
//   abort      rank 2 gives up while the others wait for it
//   kill       rank 2 dies by a signal while the others wait for it
//   overlap    on a simulated network of 100 MB/s: 10 MB are transferred while their receiver computes
#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "real/host/comm/communicator.h"
#include "real/host/mpi/mpi_transport.h"
#include "tests/support/real/transport_contract.h"

namespace plumbline::tests {
namespace {

// Every rank adds its number, with a stream and without one.
std::string check_sums(real::host::Transport& transport, bool threads) {
  real::host::HostDevice device({.threads = threads});
  const auto communicator = real::host::make_communicator(device, transport);
  const model::Tensor tensor{.name = "x", .shape = {{1000}}, .type = model::DataType::fp32};
  const real::BufferPointer buffer = device.allocate(tensor);
  device.write(*buffer, std::vector<float>(1000, static_cast<float>(transport.rank())));
  const real::Group group = real::all_ranks(transport.ranks(), transport.rank());
  const auto expected = static_cast<float>(std::accumulate(group.ranks.begin(), group.ranks.end(), 0));
  const model::Operator op{.kind = model::OperatorKind::all_reduce, .name = "sum"};
  real::Kernel kernel{.op = &op};
  kernel.reads = {buffer.get()};
  kernel.writes = {buffer.get()};
  communicator->launch(model::Stream::collective, group, kernel);
  if (const auto done = device.synchronize(); !done) return to_string(done.error());
  if (device.read(*buffer) != std::vector<float>(1000, expected)) return "a wrong sum";
  const auto sum = communicator->sum({1.0, 0.5 * transport.rank()});
  if (!sum || *sum != std::vector<double>{static_cast<double>(transport.ranks()), 0.5 * expected})
    return "a wrong sum between steps";
  const auto texts = communicator->gather("of rank " + std::to_string(transport.rank()));
  if (!texts) return to_string(texts.error());
  if (transport.rank() == 0 &&
      (texts->size() != group.ranks.size() || texts->back() != "of rank " + std::to_string(texts->size() - 1)))
    return "texts that are not those of all ranks";
  return "";
}

int contract(real::host::Transport& transport, bool threads) {
  for (const std::string& wrong : {check_transport(transport), check_sums(transport, threads)})
    if (!wrong.empty()) transport.abort(wrong);
  // The test ends when rank 0 has a message from each other rank.
  if (transport.rank() > 0) transport.send(0, {}, {});
  for (std::int32_t from = 1; transport.rank() == 0 && from < transport.ranks(); ++from) transport.receive(from, {});
  if (transport.rank() == 0) std::puts("ok");
  return 0;
}

int fail(real::host::Transport& transport, bool by_signal) {
  if (transport.rank() != 2) transport.receive(2, {});
  if (by_signal) std::raise(SIGKILL);
  transport.abort("as asked");
  return 0;
}

int overlap(real::host::Transport& transport) {
  constexpr double bandwidth = 1e8, message = 1e7, computation = 0.05;  // bytes/s, bytes, s
  real::host::Packet packet{std::vector<std::byte>(static_cast<std::size_t>(message)), 0};
  const double start = packet.time = real::host::MpiSession::time();
  if (transport.rank() == 0) transport.send(1, {}, std::move(packet));
  if (transport.rank() != 1) return 0;
  real::host::MpiSession::compute(computation);
  const double sent = transport.receive(0, {}).time, arrived = real::host::MpiSession::time();
  const double travel = message / bandwidth;
  const bool right = arrived >= sent + travel && arrived < start + computation + travel;
  std::printf("arrived %.4f s after it was sent: %s\n", arrived - sent, right ? "ok" : "wrong");
  return 0;
}

}  // namespace
}  // namespace plumbline::tests

int main(int argc, char** argv) {
  const plumbline::real::host::MpiSession session(&argc, &argv);
  const std::string what = argc > 1 ? argv[1] : "";
  const auto waiting =
      session.threads() ? plumbline::real::host::MpiWaiting::polling : plumbline::real::host::MpiWaiting::blocking;
  const auto transport = plumbline::real::host::mpi_transport(waiting);
  if (what == "contract") return plumbline::tests::contract(*transport, session.threads());
  if (what == "abort" || what == "kill") return plumbline::tests::fail(*transport, what == "kill");
  if (what == "overlap") return plumbline::tests::overlap(*transport);
  std::fputs("usage: transport_program contract|abort|kill|overlap\n", stderr);
  return 1;
}
