// The wiring rules of a cluster, which determine every link and route. docs/network.md explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/profile/cluster.h"

namespace plumbline::topologies {

enum class Interconnect {
  switched,  // each GPU has one link to a switch that connects all GPUs of the node
  mesh       // each GPU has one link to each other GPU of the node
};
std::string_view to_string(Interconnect interconnect);

// The share of a tier's bandwidth that other jobs take, 0 <= share < 1.
struct Background {
  double nic = 0;    // between NICs and leaves
  double leaf = 0;   // between leaves and spines
  double spine = 0;  // between spines and cores

  bool operator==(const Background&) const = default;
};

// Links that have a part of their bandwidth from the start of a step. A NIC without bandwidth is lost: what would cross
// it takes others of its node.
struct LinkFactor {
  std::string pattern;  // Fabric::find()
  double factor = 1;

  bool operator==(const LinkFactor&) const = default;
};

// Rates are bytes per second and direction, latencies seconds.
struct FabricShape {
  Interconnect interconnect = Interconnect::switched;
  std::int64_t gpus_per_node = 1;
  double gpu_bandwidth = 0;  // switched: from a GPU to its switch; mesh: from a GPU to all its peers together
  std::int64_t nics = 0;     // of a node
  double nic_bandwidth = 0;  // of one NIC, and of one port of the switches
  std::int64_t layers = 0;   // of switches above the NICs: 0 none, 1 leaves, 2 with spines, 3 with cores
  std::int64_t planes = 1;   // networks that are not connected with each other
  std::int64_t rails = 1;    // NICs of one rail share leaves; the NICs of a node are assigned to rails in turn
  std::int64_t switch_ports = 0;
  double oversubscription = 1;  // ports of a leaf towards NICs over ports towards spines; 1: non-blocking
  double node_latency = 0;      // GPU to GPU inside a node
  double nic_latency = 0;       // through one NIC, sending or receiving
  double switch_latency = 0;    // through one switch of the fabric
  Background background;
  std::vector<LinkFactor> factors;

  std::int64_t gpus_per_host() const { return model::gpus_per_host(gpus_per_node); }

  // Returns the bandwidth between two GPUs of a node.
  double peer_bandwidth() const {
    return interconnect == Interconnect::mesh && gpus_per_node > 1
               ? gpu_bandwidth / static_cast<double>(gpus_per_node - 1)
               : gpu_bandwidth;
  }
  // Returns whether links have less than their own bandwidth.
  bool disturbed() const { return background != Background{} || !factors.empty(); }
  bool operator==(const FabricShape&) const = default;
};

// Returns the fault of the wiring that holds for any number of GPUs, as an input error whose key is the entry of the
// topology file; nothing when there is none.
std::optional<model::Error> find_fault(const FabricShape& shape);
// Returns the same, or an infeasible error for more GPUs than the wiring connects (key cluster.gpus).
std::optional<model::Error> find_fault(const FabricShape& shape, std::int64_t gpus);

// The sizes that follow from a shape without fault.
struct FabricCapacity {
  std::int64_t leaf_down = 0;       // ports of a leaf towards NICs
  std::int64_t leaf_up = 0;         // towards spines
  std::int64_t nodes_per_leaf = 0;  // nodes on one leaf, each with all its NICs of one rail
  std::int64_t leaves_per_pod = 0;  // leaves that share spines: those of all rails for some groups of nodes
  std::int64_t leaves = 0;          // of one plane, at most
  std::int64_t nodes = 0;           // at most
  std::int64_t gpus = 0;            // at most
};
FabricCapacity capacity(const FabricShape& shape);

}  // namespace plumbline::topologies
