#include "model/cost/forms/transfer_forms.h"

#include <algorithm>
#include <cmath>

namespace plumbline::model {
namespace {

// The work of the SMs and a link overlap almost wholly: free fits to DeepEP on several nodes give exponents of 6 to 10.
constexpr double exponent = 8;

// Returns the seconds of an amount at an optional rate; 0 is none.
double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

// Returns the seconds of bytes on a link; none take no time, because a node without NICs has no rate.
double on_link(double bytes, double rate) { return bytes > 0 ? bytes / rate : 0; }

// Returns (a^8 + b^8)^(1/8), exactly the other where one is 0.
double both(double a, double b) {
  const double longer = std::max(a, b), shorter = std::min(a, b);
  if (shorter <= 0) return longer;
  return longer * std::pow(1 + std::pow(shorter / longer, exponent), 1 / exponent);
}

// Returns the seconds times SMs that the tokens of a rank take.
double sm_work(const ExchangeConstants& c, const ExchangeWork& work) {
  if (!c.limited_by_sms()) return 0;
  const bool several = work.nodes > 1;
  const double forwarding = c.forward_rate > 0 ? c.forward_rate : c.rank_rate / 2;
  const double per_byte = (several ? over(work.nodes_per_token, c.node_rate) : 0) +
                          work.ranks_per_token / (several ? forwarding : c.rank_rate);
  return work.tokens * (work.token_bytes * per_byte + work.ranks_per_token * c.row_time + c.token_time);
}

double leg(double bytes, double start, double sms, double link) { return bytes > 0 ? start + both(sms, link) : 0; }

}  // namespace

double ExchangeWork::network_bytes() const { return tokens * token_bytes * nodes_per_token * (1 - 1 / nodes); }

double ExchangeWork::node_bytes() const { return tokens * token_bytes * ranks_per_token * (1 - nodes / ranks); }

ExchangeSeconds exchange_link_seconds(const ExchangeConstants& constants, const ExchangeWork& work) {
  ExchangeSeconds time;
  time.network = on_link(work.network_bytes(), constants.nic_rate);
  time.node = on_link(work.node_bytes(), constants.nvlink_rate);
  if (work.node_bytes() > 0) time.node += over(work.tokens * work.token_bytes, constants.local_rate);
  return time;
}

ExchangeSeconds exchange_seconds(const ExchangeConstants& constants, const ExchangeWork& work, double sms) {
  const ExchangeSeconds links = exchange_link_seconds(constants, work);
  const double busy = sms > 0 ? sm_work(constants, work) / sms : 0;
  const double start = constants.start * std::pow(work.ranks, constants.start_exponent);
  return {leg(work.network_bytes(), start, busy, links.network), leg(work.node_bytes(), start, busy, links.node),
          busy > links.network, busy > links.node};
}

double LowLatencyWork::network_bytes(const LowLatencyConstants& c) const {
  return bytes * (1 - 1 / (c.node_rate > 0 ? nodes : ranks));
}

double LowLatencyWork::node_bytes(const LowLatencyConstants& c) const {
  return c.node_rate > 0 ? bytes * (1 / nodes - 1 / ranks) : 0;
}

ExchangeSeconds low_latency_seconds(const LowLatencyConstants& c, const LowLatencyWork& work) {
  const double groups = c.node_rate > 0 ? work.nodes : work.ranks, on_node = work.ranks / work.nodes;
  const double network = work.network_bytes(c), node = work.node_bytes(c);
  ExchangeSeconds time;
  if (network > 0) time.network = c.start + c.step * std::log2(groups) + network / c.nic_rate;
  if (node > 0)
    time.node = c.node_start + c.node_step * std::log2(on_node) + work.experts * c.expert_time + node / c.node_rate;
  return time;
}

std::int64_t exchange_saturation(const ExchangeConstants& constants, const ExchangeWork& work) {
  const double link = exchange_link_seconds(constants, work).seconds();
  const double busy = sm_work(constants, work);
  if (link <= 0 || busy <= 0) return 0;
  const double most = link * std::pow(std::pow(1.01, exponent) - 1, 1 / exponent);
  return 2 * static_cast<std::int64_t>(std::ceil(busy / most / 2));
}

}  // namespace plumbline::model
