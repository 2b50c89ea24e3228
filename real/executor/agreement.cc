#include "real/executor/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace plumbline::real {
namespace {

// Returns a rank's summand: 0 on success, otherwise the kind of its error.
double mark(const model::Result<void>& own) {
  if (own) return 0;
  return own.error().kind == model::ErrorKind::input ? 1 : 2;
}

}  // namespace

model::Result<void> agree(Communicator& communicator, const model::Result<void>& own) {
  std::vector<double> marks(static_cast<std::size_t>(communicator.ranks()));
  marks[static_cast<std::size_t>(communicator.rank())] = mark(own);
  const auto all = TRY(communicator.sum(std::move(marks)));
  const auto failed = std::find_if(all.begin(), all.end(), [](double value) { return value != 0; });
  if (failed == all.end()) return {};
  const auto texts = communicator.gather(own ? "" : to_string(own.error()));
  if (!own) return own;
  if (!texts) return tl::unexpected(texts.error());
  const auto rank = static_cast<std::size_t>(failed - all.begin());
  model::Error error{.kind = *failed == 1 ? model::ErrorKind::input : model::ErrorKind::infeasible,
                     .message = fmt::format("rank {} failed", rank)};
  if (communicator.rank() == 0) error.message += ": " + (*texts)[rank];
  return tl::unexpected(error);
}

model::Result<std::int64_t> from_first(Communicator& communicator, std::int64_t value) {
  const auto sum = TRY(communicator.sum({communicator.rank() == 0 ? static_cast<double>(value) : 0.0}));
  return static_cast<std::int64_t>(sum.front());
}

}  // namespace plumbline::real
