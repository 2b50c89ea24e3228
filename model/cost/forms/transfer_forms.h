// The expert all-to-all as a function of plain numbers. Predictions (model/cost/communication_cost.h) and the fits of
// its constants call the same functions. Formulas, what they were fitted to and their errors: docs/costs.md, "Between
// GPUs". Lines of collectives, for the same use: model/cost/collective_cost.h, collective_path().
#pragma once

#include <cstdint>

namespace plumbline::model {

// Constants of one direction (dispatch or combine), in SI. A term whose constant is 0 is absent, but for the links'.
struct ExchangeConstants {
  double start = 0;           // s, of a group of one rank; exchange.<direction>.start
  double start_exponent = 0;  // of the group's ranks
  // Work of the SMs that move the tokens, per SM.
  double node_rate = 0;     // B/s, for every node that a token reaches; only on several nodes
  double rank_rate = 0;     // B/s, for every rank that a token reaches, where the group is on one node
  double forward_rate = 0;  // B/s, the same on several nodes; 0: half of rank_rate, as half of the SMs forward
  double row_time = 0;      // s times SMs, for every rank that a token reaches
  double token_time = 0;    // s times SMs, for every token
  // Links of a GPU, per direction. A leg with bytes needs its rate; infinity: the link never limits.
  double nvlink_rate = 0;  // B/s
  double local_rate = 0;   // B/s, every token once within the NVLink domain, whether or not it leaves the GPU
  double nic_rate = 0;     // B/s

  bool limited_by_sms() const { return rank_rate > 0; }
};

struct ExchangeWork {  // of one rank
  double tokens = 0, token_bytes = 0;
  double ranks_per_token = 0, nodes_per_token = 0;  // expected distinct ones, the rank's own included
  double ranks = 1, nodes = 1;                      // of the group

  double network_bytes() const;  // sent through the NIC: a token's nodes include its own once in `nodes`
  double node_bytes() const;     // sent over NVLink: of its ranks on a node, one is where a token arrives
};

// Seconds of the two legs, which run concurrently; 0 for a leg without bytes. Each includes the start and the work of
// the SMs.
struct ExchangeSeconds {
  double network = 0, node = 0;
  bool sms_limit_network = false, sms_limit_node = false;  // the SMs' work takes longer than the link
  double seconds() const { return network > node ? network : node; }
};

// Returns the seconds of dispatch or combine by kernels on `sms` SMs, without the rendezvous of the ranks: for each leg
//   start * ranks^start_exponent + (sm^8 + link^8)^(1/8)
//   sm   = tokens / sms * (token_bytes * (nodes_per_token / node_rate + ranks_per_token / rank_rate)
//                          + ranks_per_token * row_time + token_time)
//   link = network_bytes / nic_rate, and node_bytes / nvlink_rate + tokens * token_bytes / local_rate.
// 0 SMs: what is not moved by SMs (copy engines, threads of a host), so sm = 0.
ExchangeSeconds exchange_seconds(const ExchangeConstants& constants, const ExchangeWork& work, double sms);

// Returns the seconds of the links alone: exchange_seconds() is never shorter.
ExchangeSeconds exchange_link_seconds(const ExchangeConstants& constants, const ExchangeWork& work);

// Constants of one direction of low-latency kernels, in SI. Their transfers hold no SMs.
struct LowLatencyConstants {
  double start = 0, step = 0;            // s between nodes: of any group, and for every doubling of its nodes
  double nic_rate = 0;                   // B/s
  double node_start = 0, node_step = 0;  // s within a node, for every doubling of the group's ranks on it
  double expert_time = 0;                // s within a node, for every expert of the model
  double node_rate = 0;                  // B/s; 0: ranks of the same node are reached through their NICs, too
};

struct LowLatencyWork {         // of one rank
  double bytes = 0;             // of all copies of its tokens, the rank's own included
  double ranks = 1, nodes = 1;  // of the group
  double experts = 0;           // of the model, copies of popular ones included

  // Sent by a GPU: all copies but those that stay on the sender, or on the sender's node.
  double network_bytes(const LowLatencyConstants& constants) const;
  double node_bytes(const LowLatencyConstants& constants) const;
};

// Returns the seconds of the legs of a low-latency dispatch or combine, whose copies go to all ranks alike:
//   network: start + step log2(g) + bytes (1 - 1/g) / nic_rate, with g nodes, or ranks where node_rate is 0
//   node:    node_start + node_step log2(n) + experts expert_time + bytes (n - 1) / ranks / node_rate, with n ranks on
//   a node
ExchangeSeconds low_latency_seconds(const LowLatencyConstants& constants, const LowLatencyWork& work);

// Returns the fewest SMs, an even number as kernels use them in pairs, with which the SMs' work lengthens the longer
// leg by at most 1 % of the link's time; 0 where no SMs or no bytes limit.
std::int64_t exchange_saturation(const ExchangeConstants& constants, const ExchangeWork& work);

}  // namespace plumbline::model
