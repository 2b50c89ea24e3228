#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "real/host/comm/transport.h"
#include "tests/support/real/host_ranks.h"
#include "tests/support/real/transport_contract.h"

namespace plumbline::real::host {
namespace {

class InProcess : public testing::TestWithParam<std::int32_t> {};

TEST_P(InProcess, KeepsTheContract) {
  std::vector<std::string> wrong(static_cast<std::size_t>(GetParam()), "not run");
  tests::run_ranks(GetParam(), [&](Transport& transport) {
    wrong[static_cast<std::size_t>(transport.rank())] = tests::check_transport(transport);
  });
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, InProcess, testing::Values(1, 2, 3, 8));

// Returns the text of the exception that a call throws, "" if it does not.
template <class Body>
std::string failure_of(Body body) {
  try {
    body();
    return "";
  } catch (const RankFailure& failure) {
    return failure.what();
  }
}

TEST(InProcessAbort, WakesWhoWaitsAndNamesTheRank) {
  std::vector<std::string> heard(4);
  tests::run_ranks(4, [&](Transport& transport) {
    if (transport.rank() == 2) return transport.abort("out of memory");
    heard[static_cast<std::size_t>(transport.rank())] = failure_of([&] { transport.receive(2, {}); });
  });
  EXPECT_EQ(heard,
            (std::vector<std::string>{"rank 2: out of memory", "rank 2: out of memory", "", "rank 2: out of memory"}));
}

TEST(InProcessAbort, EndsLaterCallsToo) {
  const auto transports = in_process_transports(2);
  transports[0]->send(1, {}, {});
  transports[1]->abort("lost its disk");
  EXPECT_EQ(failure_of([&] { transports[0]->send(1, {}, {}); }), "rank 1: lost its disk");
  EXPECT_EQ(failure_of([&] { transports[0]->receive(1, {}); }), "rank 1: lost its disk");
  // Packets that arrived before do not count either: the job is over.
  EXPECT_EQ(failure_of([&] { transports[1]->receive(0, {}); }), "rank 1: lost its disk");
}

TEST(InProcessAbort, GivesAllRanksTheFirstFailure) {
  const auto transports = in_process_transports(3);
  transports[1]->abort("first");
  transports[0]->abort("because of rank 1");
  for (const auto& transport : transports) EXPECT_EQ(failure_of([&] { transport->receive(0, {}); }), "rank 1: first");
}

}  // namespace
}  // namespace plumbline::real::host
