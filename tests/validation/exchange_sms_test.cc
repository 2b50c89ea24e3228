// Communication kernels on few SMs, compared with the published tables from which the constants of the shipped profiles
// are fitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/units.h"
#include "model/cost/forms/transfer_forms.h"
#include "tests/support/costs.h"
#include "tests/support/published.h"

namespace plumbline::tests {
namespace {

std::vector<Row> rows_of(const std::string& library, const std::string& hardware, const std::string& measure) {
  std::vector<Row> found;
  for (const Row& row : published("sm_vs_bandwidth"))
    if (row.at("library") == library && row.at("hardware") == hardware && row.at("measure") == measure)
      found.push_back(row);
  return found;
}

// Returns the expected number of `groups` equal groups of experts that 8 of `experts` random ones hit.
double distinct(double groups, double experts) {
  double missed = 1;
  for (int i = 0; i < 8; ++i) missed *= (experts - experts / groups - i) / (experts - i);
  return groups * (1 - missed);
}

// The README's rates are bytes of a token for each of its nodes over the time; 8 experts lie on a rank.
struct Case {
  model::ExchangeWork work;
  double sms = 0, seconds = 0;
  std::string id;
};

Case case_of(const Row& row, const std::string& column, double token_bytes) {
  Case one;
  one.id = row.at("id") + " " + column;
  const double ranks = number(row, "ranks"), nodes = ranks / 8;
  one.work = {4096, token_bytes, distinct(ranks, 8 * ranks), distinct(nodes, 8 * ranks), ranks, nodes};
  one.sms = number(row, "sms");
  one.seconds = 4096 * token_bytes * one.work.nodes_per_token / (number(row, column) * 1e9);
  return one;
}

double constant(const model::Profile& profile, const std::string& name) {
  const auto found = profile.find(name);
  if (!found) return 0;
  const model::Parameter& parameter = profile.parameters()[*found];
  return parameter.value * model::si_unit(parameter.unit)->factor;
}

// Returns the constants of the kernels' SMs, with the fastest links that any of the cases shows.
model::ExchangeConstants constants_of(const std::string& prefix, const std::vector<Case>& cases) {
  const model::Profile h800 = profile(shipped_profile("h800"));
  model::ExchangeConstants c;
  c.node_rate = constant(h800, prefix + ".node_rate");
  c.rank_rate = constant(h800, prefix + ".rank_rate");
  c.forward_rate = constant(h800, prefix + ".forward_rate");
  for (const Case& one : cases) {
    c.nic_rate = std::max(c.nic_rate, one.work.network_bytes() / one.seconds);
    c.nvlink_rate = std::max(c.nvlink_rate, one.work.node_bytes() / one.seconds);
  }
  return c;
}

// 9 rows each of 16, 32 and 64 ranks with 4, 8 and 16 SMs. The fit with free links leaves 4.3 % (dispatch) and 4.2 %
// (combine).
TEST(ExchangeSms, HybridEpIsThePublishedTableOverInfiniBand) {
  const std::vector<Row> rows = rows_of("HybridEP", "H100, IB inter-node", "kernel only");
  ASSERT_EQ(rows.size(), 9u);
  for (const auto& [direction, column, bytes] :
       {std::tuple("dispatch", "dispatch_fp8_gbps", 7392.0), std::tuple("combine", "combine_gbps", 14336.0)}) {
    std::vector<Case> cases;
    for (const Row& row : rows) cases.push_back(case_of(row, column, bytes));
    const model::ExchangeConstants c = constants_of(std::string("exchange.hybrid-ep.") + direction, cases);
    for (const Case& one : cases)
      EXPECT_NEAR(exchange_seconds(c, one.work, one.sms).seconds() / one.seconds, 1, 0.11) << one.id;
  }
}

// Over NVLink 5, with HybridEP's own stages, a combine of short rows is bound by the rows that an SM has in flight: 512
// columns reach a tenth of the rate of 7,168. Rows of other stages are those of the dispatch alone.
TEST(ExchangeSms, HybridEpIsThePublishedTableOverNvlink) {
  int asked = 0;
  for (const auto& [hardware, name, tokens, columns, experts] :
       {std::tuple("GB200 NVL (NVLink domain)", "gb200", 4096.0, 7168.0, 8.0),
        {"B200 x8 (NVLink), 512 columns", "b200", 8192.0, 512.0, 32.0},
        {"B300 x8 (NVLink), 512 columns", "b300", 8192.0, 512.0, 8.0},
        {"B300 x8 (NVLink), 4096 columns", "b300", 8192.0, 4096.0, 8.0}}) {
    const model::Profile constants = profile(shipped_profile(name));
    for (const Row& row : rows_of("HybridEP", hardware, "kernel only"))
      for (const auto& [direction, column, within] : {std::tuple("dispatch", "dispatch_bf16_gbps", 0.08),
                                                      {"combine", "combine_gbps", columns < 1024 ? 0.2 : 0.11}}) {
        if (column == std::string("combine_gbps") && row.at("notes").ends_with("64 and 8 stages of combine")) continue;
        const std::string prefix = std::string("exchange.hybrid-ep.") + direction;
        model::ExchangeConstants c;
        c.start = constant(constants, prefix + ".start");
        c.start_exponent = constant(constants, prefix + ".start_exponent");
        c.nvlink_rate = constant(constants, prefix + ".nvlink_rate");
        c.rank_rate = constant(constants, prefix + ".rank_rate");
        c.row_time = constant(constants, prefix + ".row_time");
        c.token_time = constant(constants, prefix + ".token_time");
        const double ranks = number(row, "ranks"), reached = distinct(ranks, experts * ranks);
        // Rates count the payload, not the probabilities that a dispatch brings with it: those of all experts, but in
        // the rows of a branch that sends each rank those of its own.
        const bool own = row.at("notes").find("sparse-opt-2") != std::string::npos;
        const bool weighs =
            direction == std::string("dispatch") && row.at("notes").find("without probabilities") == std::string::npos;
        const double probabilities = weighs ? 4 * experts * (own ? 1 : ranks) : 0;
        const model::ExchangeWork work{tokens, 2 * columns + probabilities, reached, 1, ranks, 1};
        const double seconds = tokens * 2 * columns * reached / (number(row, column) * 1e9);
        EXPECT_NEAR(exchange_seconds(c, work, number(row, "sms")).seconds() / seconds, 1, within) << row.at("id");
        ++asked;
      }
  }
  EXPECT_EQ(asked, 24);
}

// On one node four SMs do not fill NVLink: the rows of which the rates of an SM are taken.
TEST(ExchangeSms, HybridEpOnANodeIsLimitedByFourSms) {
  int asked = 0;
  const model::Profile h800 = profile(shipped_profile("h800"));
  for (const Row& row : rows_of("HybridEP", "DGX H100 x1 (NVLink4, 450 GB/s)", "CUDA blocks")) {
    if (number(row, "sms") != 4) continue;
    EXPECT_NEAR(constant(h800, "exchange.hybrid-ep.dispatch.rank_rate"), number(row, "dispatch_bf16_gbps") / 4 * 1e9,
                0.1e9);
    EXPECT_NEAR(constant(h800, "exchange.hybrid-ep.combine.rank_rate"), number(row, "combine_gbps") / 4 * 1e9, 0.1e9);
    ++asked;
  }
  EXPECT_EQ(asked, 1);
}

// The work of the SMs is inversely proportional to their number. DeepEP on eight B200, where no network limits it, is
// within 13 % of that from 16 to 36 SMs: 246 and 482 GB/s of FP8 dispatch.
TEST(ExchangeSms, DeepEpScalesNearlyInProportion) {
  const std::vector<Row> rows = rows_of("DeepEP", "B200 x8 (NVLink)", "TorchAPI");
  ASSERT_GE(rows.size(), 5u);
  const double per_sm = number(rows[0], "dispatch_fp8_gbps") / number(rows[0], "sms");
  for (const Row& row : rows) {
    if (number(row, "sms") > 36) continue;
    const double share = number(row, "dispatch_fp8_gbps") / (per_sm * number(row, "sms"));
    EXPECT_LE(share, 1) << row.at("sms");
    EXPECT_GE(share, 0.87) << row.at("sms");
  }
}

}  // namespace
}  // namespace plumbline::tests
