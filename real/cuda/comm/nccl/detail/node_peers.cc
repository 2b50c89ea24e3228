#include "real/cuda/comm/nccl/detail/node_peers.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <set>

#include "real/cuda/comm/nccl/peer_memory.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t trial_bytes = 1 << 21;  // the granularity at which drivers share memory

using Text = std::array<char, 256>;

// The fixed-size record that each rank shares with the others.
struct PeerRecord {
  Text machine{}, failure{};
  MemoryKey trial;
};

void write(Text& text, const std::string& words) {
  text = {};
  words.copy(text.data(), text.size() - 1);
}

// Containers on one machine have different host names, but the same kernel boot id.
std::string name_of_machine() {
  std::string name;
  if (std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name) && !name.empty()) return name;
  Text host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

Status share_records(ControlChannel& channel, const PeerRecord& own, std::vector<PeerRecord>& all) {
  std::string bytes(sizeof own, '\0');
  std::memcpy(bytes.data(), &own, sizeof own);
  const auto gathered = channel.gather(bytes);
  if (!gathered) return {gathered.error().message};
  std::string joined;
  for (const std::string& record : *gathered) joined += record;
  const auto shared = channel.broadcast(joined);
  if (!shared) return {shared.error().message};
  all.resize(static_cast<std::size_t>(channel.ranks()));
  if (shared->size() != all.size() * sizeof own) return {"ranks did not send their places"};
  std::memcpy(static_cast<void*>(all.data()), shared->data(), shared->size());
  return {};
}

std::vector<std::int32_t> nodes_of(const std::vector<PeerRecord>& records) {
  std::vector<std::int32_t> nodes;
  for (const PeerRecord& record : records) {
    std::size_t first = 0;
    while (records[first].machine != record.machine) ++first;
    nodes.push_back(static_cast<std::int32_t>(first));
  }
  return nodes;
}

// Maps a trial piece of the memory of every other rank of the node.
Status try_all(const std::vector<PeerRecord>& records, const std::vector<std::int32_t>& node_of, std::int32_t own) {
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (node_of[rank] != node_of[static_cast<std::size_t>(own)] || rank == static_cast<std::size_t>(own)) continue;
    if (records[rank].failure[0] != '\0') return {records[rank].failure.data()};
    PeerMemory memory;
    PLUMBLINE_TRY(memory.open(records[rank].trial));
  }
  return {};
}

}  // namespace

std::string transports_of(const NodePeers& node_peers) {
  const std::size_t ranks = node_peers.node_of.size(),
                    nodes = std::set(node_peers.node_of.begin(), node_peers.node_of.end()).size();
  if (!node_peers.apart.empty())
    return "tokens go over NCCL only: ranks of a machine cannot map each other's memory (" + node_peers.apart + ")";
  if (nodes == ranks) return "tokens go over NCCL only: every rank is on its own machine";
  const std::string inside = "tokens go through memory that the ranks of a machine map";
  if (nodes == 1) return inside;
  return inside + ", and once to each of " + std::to_string(nodes) + " machines over NCCL";
}

Status find_node_peers(ControlChannel& channel, const std::string& machine, NodePeers& node_peers) {
  PeerRecord own;
  write(own.machine, machine.empty() ? name_of_machine() : machine);
  DeviceMemory trial;
  Status status = trial.allocate(trial_bytes);
  if (status.ok()) status = key_of(trial, own.trial);
  write(own.failure, status.failure);
  std::vector<PeerRecord> records;
  PLUMBLINE_TRY(share_records(channel, own, records));
  node_peers = {nodes_of(records), ""};

  // If one rank fails to map the memory, none uses it. Sharing the results also ensures that no rank frees its
  // trial memory while another one maps it.
  write(own.failure, try_all(records, node_peers.node_of, channel.rank()).failure);
  PLUMBLINE_TRY(share_records(channel, own, records));
  for (const PeerRecord& record : records)
    if (node_peers.apart.empty()) node_peers.apart = record.failure.data();
  if (node_peers.apart.empty()) return {};
  for (std::size_t rank = 0; rank < records.size(); ++rank) node_peers.node_of[rank] = static_cast<std::int32_t>(rank);
  return {};
}

}  // namespace plumbline::real::cuda
