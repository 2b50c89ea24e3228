// CollectiveCost predicts collectives over dense groups of ranks as NCCL runs them: each algorithm and protocol has a
// latency and a rate, and the fastest pair is used at every size. Formulas and sources: docs/costs.md, "Collectives".
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/integers.h"
#include "model/base/units.h"
#include "model/cost/constants.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, send_recv };
// nvls: the switch sums; direct: sends and receives; pat: NCCL's parallel aggregated trees; one_shot and two_shot: an
// inference engine's own all-reduce by peer memory
enum class CollectiveAlgorithm { ring, tree, nvls, direct, pat, one_shot, two_shot };
enum class CollectiveProtocol { ll, ll128, simple };

std::string_view to_string(Collective collective);
std::string_view to_string(CollectiveProtocol protocol);
// Parses the name of a collective; an unknown one is an input error with the nearest name.
Result<Collective> parse_collective(std::string_view text);

struct CollectiveGroup {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;  // at most `ranks`; each has its own GPU and share of the NICs
  double network_slowdown = 1;      // factor on the NICs' time, from links that the rings between nodes share

  std::int64_t nodes() const { return ceil_div(ranks, ranks_per_node); }
  // Returns a group of `ranks` members that are `stride` GPUs apart, on nodes of `gpus_per_node`.
  static CollectiveGroup strided(std::int64_t ranks, std::int64_t stride, std::int64_t gpus_per_node);
};

// One algorithm and protocol for a collective: seconds = latency + bytes * seconds_per_byte.
struct CollectivePath {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  CollectiveProtocol protocol = CollectiveProtocol::simple;
  double latency = 0;  // seconds
  double seconds_per_byte = 0;
  double nic_load = 0, node_load = 0;  // bytes that a GPU sends through its NIC and inside its node, per byte

  double seconds(Bytes bytes) const { return latency + bytes.value() * seconds_per_byte; }
};

// What a path takes, in SI: the constants of an algorithm and protocol on given links.
struct CollectiveLine {
  double base = 0;                                         // s, launch included
  double nvlink_hop = 0, network_hop = 0;                  // s per transfer
  double nvlink_rate = 0, nic_rate = 0;                    // useful B/s over the links of one GPU
  double limit = std::numeric_limits<double>::infinity();  // B/s, of the protocol itself
  double copy_bandwidth = 0;  // B/s at which a rank moves its own piece to its place; 0: it is not moved
};

// Returns one algorithm and protocol on a line's numbers; for fits too. With n ranks, g of them on each of N nodes, f
// the bus factor and p = 2 for all-reduce, else 1, latency and seconds per byte are
//
//   ring:    base + p (n - N) nvlink_hop + p (N - 1) network_hop
//            f / min(nvlink_rate, g nic_rate, limit)
//   tree:    base + 2 (g - 1) nvlink_hop + 2 log2 N network_hop
//            max(2 / nvlink_rate, 2 (N-1)/N / (g nic_rate), 2 / limit)
//   nvls:    base + nvlink_hop + 2 log2 N network_hop
//            max(1 / nvlink_rate, 8/9 (1 + 1/g) / nvlink_rate, 2 (N-1)/N / (g nic_rate)): the rate of eight GPUs
//   pat:     base + n nvlink_hop + log2 N network_hop, for gathers and scatters over groups of one rank a node
//            f / nic_rate
//   one_shot: every rank reads the buffers of all others: base + (n - 1) nvlink_hop, (n - 1) / nvlink_rate
//   two_shot: the same by pieces, which are then gathered: base + (n - 1) nvlink_hop, f / nvlink_rate
//   direct:  all-to-all: base + (n - 1) nvlink_hop, and one network_hop between nodes
//            max((g-1)/n / nvlink_rate, (n-g)/n / min(nic_rate, limit))
//            send_recv: one transfer over its link, at the rate of that link
//
// ring and direct take 1 / (n copy_bandwidth) more per byte, but for broadcast and send_recv. The loads are the
// numerators of these rates: f / g through a NIC for a ring, 2 (N-1)/N / g for trees and nvls; 1 + 1/g in the node for
// nvls.
CollectivePath collective_path(CollectiveAlgorithm algorithm, CollectiveProtocol protocol, Collective collective,
                               const CollectiveGroup& group, const CollectiveLine& line);

// Returns bus bandwidth over algorithm bandwidth (bytes over time) as in nccl-tests: the traffic on a link of a ring.
double bus_factor(Collective collective, std::int64_t ranks);

class CollectiveCost {
 public:
  // Fails with an input error naming a missing constant. Link rates are the profile's, scaled to the cluster's line
  // rates.
  static Result<CollectiveCost> make(const Profile& profile, const ClusterShape& cluster);

  // Returns all available paths for buffers of `bytes`; none for a single rank.
  std::vector<CollectivePath> paths(Collective collective, const CollectiveGroup& group, Bytes bytes = Bytes(0)) const;
  // Returns the fastest path for `bytes`, the larger one of a rank's input and output buffer (send_recv: the message),
  // as in nccl-tests. Requires at least two ranks.
  CollectivePath fastest(Collective collective, const CollectiveGroup& group, Bytes bytes) const;
  // Returns the seconds at the highest rate of any path, without latency: time() is never shorter. 0 for a single rank.
  double best(Collective collective, const CollectiveGroup& group, Bytes bytes) const;
  // Returns the seconds on the fastest path; 0 for a single rank.
  double time(Collective collective, const CollectiveGroup& group, Bytes bytes) const;

  // Returns the blocks of a collective kernel, one SM each.
  std::int64_t channels() const { return std::llround(channels_.value); }
  double nvlink_rate() const { return nvlink_rate_.value; }  // B/s per GPU and direction
  double nic_rate() const { return nic_rate_.value; }        // B/s per GPU and direction

 private:
  static constexpr std::size_t protocols = 3;
  struct Pace {  // one algorithm and protocol
    Constant base, nvlink_step, network_step;
    Constant efficiency;  // useful bytes over bytes on the link
  };
  double cap(CollectiveProtocol protocol, const CollectiveGroup& group) const;
  CollectiveLine line(const Pace& pace, double nvlink_rate, double nic_rate) const;
  // Of a ring or a tree, whose channels have a bandwidth each.
  CollectivePath on_channels(CollectiveAlgorithm algorithm, Collective collective, CollectiveProtocol protocol,
                             const CollectiveGroup& group) const;
  CollectivePath nvls(const CollectiveGroup& group) const;
  CollectivePath pat(Collective collective, const CollectiveGroup& group) const;
  CollectivePath direct(Collective collective, CollectiveProtocol protocol, const CollectiveGroup& group) const;
  double nic_rate(const CollectiveGroup& group) const { return nic_rate_.value / group.network_slowdown; }

  std::array<Pace, protocols> ring_, tree_;
  std::array<std::optional<Pace>, protocols> direct_;  // where the profile has lines of their own
  Pace nvls_;
  struct Custom {  // an engine's all-reduce
    double most_ranks = 0, most_bytes = 0;
    CollectiveLine one_shot, two_shot;
  };
  static std::optional<Custom> read_custom(ConstantReader& reader, const Profile& profile, double nvlink_scale);

  std::optional<Custom> custom_;  // where a stack states that it is used
  std::optional<Pace> pat_;       // where the profile has it; nvlink_step: for every rank
  Constant nvlink_rate_, nic_rate_;
  Constant launch_, nvlink_latency_scale_, network_latency_scale_;
  Constant channels_, ring_channel_, tree_channel_;
  double copy_bandwidth_ = 0;             // B/s; 0: the profile has none
  std::array<Constant, 3> ll_bandwidth_;  // on one node, two, more
  bool has_nvls_ = false;
};

}  // namespace plumbline::model
