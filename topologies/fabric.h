// The links of a cluster and the route between any two of its GPUs. Routes are computed from the wiring rules without
// tables, so 16,384 GPUs take a fraction of a second.
//
// The wiring rules of a cluster, which determine every link and route. docs/network.md explains them.
//
// The placement of ranks on GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/economics/prices.h"
#include "model/profile/cluster.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

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

// Links have one direction; a cable is two links.
enum class LinkKind {
  gpu_up,      // a GPU to the switch of its node
  gpu_down,    // back
  mesh,        // a GPU to another one of its node
  nic_up,      // a NIC to its leaf
  nic_down,    // back
  leaf_up,     // a leaf to a spine
  leaf_down,   // back
  spine_up,    // a spine to a core switch
  spine_down,  // back
};
std::string_view to_string(LinkKind kind);

struct Link {
  std::string name;  // "node3.gpu5.up", "plane0.leaf1.spine7.down"
  LinkKind kind = LinkKind::gpu_up;
  double bandwidth = 0;  // B/s
  double latency = 0;    // s, of the link and of the switch or NIC at its end
};

using LinkId = std::uint32_t;

// The links of a cluster. GPUs are numbered node by node, and the last node may be partly filled. Links between nodes
// exist only with at least two nodes, spines and cores only where a plane has several leaves and pods. A leaf that is
// not full is cabled to as few spines as keep its oversubscription. Several NICs of one GPU count as one with their
// joint bandwidth.
class Fabric {
 public:
  // Returns an input error for a shape with a fault (find_fault()) or a factor on links that do not exist, an
  // infeasible one for more GPUs than the wiring allows and where no NIC is left that works on every node.
  static model::Result<Fabric> make(const FabricShape& shape, std::int64_t gpus);
  // Makes a fabric without links and routes, for counting: a few operations at any size.
  static model::Result<Fabric> outline(const FabricShape& shape, std::int64_t gpus);

  const FabricShape& shape() const { return shape_; }
  std::int64_t gpus() const { return gpus_; }
  std::int64_t gpus_per_node() const { return shape_.gpus_per_node; }
  std::int64_t nodes() const { return nodes_; }
  const std::vector<Link>& links() const { return links_; }
  const Link& link(LinkId id) const { return links_[id]; }

  std::int64_t node(std::int64_t gpu) const { return gpu / shape_.gpus_per_node; }
  std::int64_t index_in_node(std::int64_t gpu) const { return gpu % shape_.gpus_per_node; }
  std::int64_t rail(std::int64_t gpu) const { return port(gpu) % shape_.rails; }
  std::int64_t plane(std::int64_t gpu) const { return rail(gpu) / rails_per_plane_; }
  // Returns the leaf switch of the GPU's NIC, numbered over all planes.
  std::int64_t leaf(std::int64_t gpu) const;

  // Returns the link of the GPU's NIC, which GPUs may share. Requires at least two nodes.
  LinkId nic_up(std::int64_t gpu) const;
  LinkId nic_down(std::int64_t gpu) const { return nic_up(gpu) + 1; }
  // Returns the pod of a leaf, numbered over all planes. The leaves of a pod share spines.
  std::int64_t pod_of_leaf(std::int64_t leaf) const {
    return leaf / leaves_per_plane_ * pods_ + leaf % leaves_per_plane_ / leaves_per_pod_;
  }

  // Returns the links of a name or pattern: all whose name begins with its parts ("node3.nic0",
  // "plane2.leaf1.spine0.up"), with * for any letters. Links of NICs have the names of their planes too, so "plane2" is
  // all of plane 2. An unknown name is an input error with the nearest one.
  model::Result<std::vector<LinkId>> find(std::string_view pattern) const;

  // The following return the number of switches.
  std::int64_t leaves() const { return shape_.planes * leaves_per_plane_; }
  std::int64_t pods() const { return shape_.planes * pods_; }  // 0 where no leaf has a spine
  std::int64_t spines() const { return shape_.planes * pods_ * spines_; }
  std::int64_t cores() const { return shape_.planes * spines_ * cores_; }
  std::int64_t leaves_per_pod() const { return leaves_per_pod_; }

  // The following return the number of cables, each a pair of links for every one of the NICs that count as one.
  std::int64_t nic_cables() const { return leaves() > 0 && nodes_ > 1 ? nodes_ * shape_.nics : 0; }
  std::int64_t spine_cables() const { return leaves() * spines_ * (shape_.nics / ports_); }
  std::int64_t core_cables() const { return pods() * spines_ * cores_ * (shape_.nics / ports_); }

  // Appends the directed links from GPU a to GPU b in order; none when a is b. Inside a node these are up and down, or
  // the mesh link. Between nodes of one network they are the NIC of a, links up as far as needed, and links down to the
  // NIC of b. The number of the destination's NIC selects spine and core (D-mod-k), as static routing of InfiniBand
  // does. NICs of a and b may be on networks that are not connected (planes, or rails of a single layer of leaves).
  // Then the route first crosses the node to the GPU with b's index. If a partly filled node has no such GPU, the route
  // leaves by a's own NIC and crosses the node of b. Where a NIC of the route is lost, it takes the NICs of another
  // index at both ends and crosses both nodes to them. Pairs of nodes take turns among the working indices like rounds
  // of a tournament: with n - 1 of them, the routes of n nodes in a row load each NIC equally.
  void route(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const;

 private:
  Fabric() = default;
  void lay_out();
  void add_node_links();
  void add_nic_links();
  void add_switch_links();
  void add_background();
  model::Result<void> apply_factors();
  std::string plane_name(LinkId link) const;  // of a NIC's link, with its plane; "" of others
  bool is_lost(std::int64_t gpu) const { return !lost_.empty() && lost_[nic_index(gpu)] != 0; }
  std::size_t nic_index(std::int64_t gpu) const { return static_cast<std::size_t>(node(gpu) * ports_ + port(gpu)); }
  std::int64_t working_index(std::int64_t from_node, std::int64_t to_node, std::int64_t index) const;
  double port_bandwidth() const;  // of all NICs of one GPU

  std::int64_t port(std::int64_t gpu) const { return index_in_node(gpu) * ports_ / shape_.gpus_per_node; }
  std::int64_t network(std::int64_t gpu) const { return shape_.layers == 1 ? rail(gpu) : plane(gpu); }
  std::int64_t gpus_in(std::int64_t node) const;
  std::int64_t nic_number(std::int64_t gpu) const;  // number of the GPU's NIC in its plane, counted leaf by leaf
  LinkId leaf_link(std::int64_t leaf, std::int64_t spine) const;  // the link up; the link down follows it
  LinkId spine_link(std::int64_t pod, std::int64_t spine, std::int64_t core) const;
  void route_in_node(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const;
  void route_in_network(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const;

  FabricShape shape_;
  std::vector<Link> links_;
  std::vector<char> lost_;             // [node * ports_ + port]; empty: no NIC is lost
  std::vector<std::int64_t> working_;  // indices of GPUs whose NICs work on every node, where any is lost
  std::int64_t gpus_ = 0, nodes_ = 0;
  std::int64_t ports_ = 1;  // NICs of a node, those of one GPU counted as one
  std::int64_t rails_per_plane_ = 1;
  std::int64_t nodes_per_leaf_ = 1;  // nodes on one leaf of each rail, in the fullest group
  std::int64_t nics_per_leaf_ = 1;   // on the fullest leaf
  std::int64_t leaves_per_plane_ = 0, leaves_per_pod_ = 1;
  std::int64_t pods_ = 0;    // of one plane; the leaves of a pod share spines
  std::int64_t spines_ = 0;  // of one pod
  std::int64_t cores_ = 0;   // above each of a pod's spines
  std::int64_t first_nic_link_ = 0, first_leaf_link_ = 0, first_spine_link_ = 0;
};

// Links of one kind, counted.
struct LinkGroup {
  LinkKind kind = LinkKind::gpu_up;
  std::int64_t count = 0;
  double bandwidth = 0;  // of one link, B/s
};

// Returns the links by kind, in the order of LinkKind.
std::vector<LinkGroup> inventory(const Fabric& fabric);

// Returns the parts to buy for the fabric; none for a single node. A pair of links between switches is a cable. Where
// the wiring leaves ports of spines or cores free, the count of switches is that needed for the ports in use: such
// spines can be merged, with parallel cables to each.
model::FabricParts count_parts(const Fabric& fabric);

// Returns what one half of the cluster can send to the other, in B/s and one direction. It is the least of what the
// NICs of half the nodes, the links of half the groups of leaves to the spines, and those of half the pods to the cores
// carry. Inside a single node it is what half of its GPUs can send to the others; 0 for one GPU.
double bisection_bandwidth(const Fabric& fabric);

// A bijection between ranks and GPUs 0 to n - 1.
class Placement {
 public:
  // Makes a placement by a rule:
  //   contiguous   rank r on GPU r
  //   striped      consecutive ranks on consecutive nodes, round by round
  //   random:SEED  whole nodes in random order, as a scheduler assigns them; the same seed gives the same order
  //   file:PATH    the GPU of rank r on line r + 1; blank lines and lines that begin with # do not count
  // Errors are input errors: of the rule with key cluster.placement, of a file with its line.
  static model::Result<Placement> make(std::string_view rule, std::int64_t gpus, std::int64_t gpus_per_node);

  std::int64_t ranks() const { return static_cast<std::int64_t>(gpus_.size()); }
  std::int64_t gpu(std::int64_t rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  std::int64_t rank(std::int64_t gpu) const { return ranks_[static_cast<std::size_t>(gpu)]; }

 private:
  explicit Placement(std::vector<std::int64_t> gpu_of_rank);

  std::vector<std::int64_t> gpus_;   // by rank
  std::vector<std::int64_t> ranks_;  // by GPU
};

// Returns the nodes as the plan's ranks use them: where it states no placement and has more GPUs than a node, only the
// largest number of GPUs that holds whole tensor and expert groups and can be wired, with their NICs. An expert group
// of 64 then lies in one rack of 72, whose other eight GPUs are idle. An expert group that is larger than a node is
// divided into equal parts where that leaves no more than an eighth of a node idle. cluster.domain_gpus states another
// number, which check_domain() must have let pass.
FabricShape used_nodes(const FabricShape& shape, const model::Plan& plan);

// Refuses a cluster.domain_gpus that a node does not have, that would part a NIC or that leaves a wiring with a fault
// (find_fault()), whatever the plan's number of GPUs, because searches change it; and one that would rename links that
// have factors.
model::Result<void> check_domain(const FabricShape& shape, const model::Plan& plan);

// Returns how many GPUs of one node the ranks of an expert group have between them, in the group that is cut up most:
// all of a node where groups lie inside, else the largest divisor of the group that each part of it holds.
std::int64_t expert_node_gpus(const FabricShape& shape, const model::Plan& plan);

// Returns sentences about GPUs that are idle for that reason, and about tensor and expert groups that cross nodes
// although one could hold them.
std::vector<std::string> placement_warnings(const FabricShape& shape, const model::Plan& plan);

// Makes the placement of the plan's cluster.placement (default: contiguous). Paths are relative to the plan's folder.
model::Result<Placement> placement_of(const model::Plan& plan, std::int64_t gpus_per_node);

}  // namespace plumbline::topologies
