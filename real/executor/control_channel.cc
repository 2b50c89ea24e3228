#include "real/executor/control_channel.h"

#include <utility>

#include "model/base/bytes.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

class LoneChannel final : public ControlChannel {
 public:
  std::int32_t rank() const override { return 0; }
  std::int32_t ranks() const override { return 1; }
  model::Result<void> send(std::int32_t, const std::string&) override { return infeasible("there is one rank"); }
  model::Result<std::string> receive(std::int32_t) override { return infeasible("there is one rank"); }
  void abort(const std::string&) override {}
  std::optional<std::string> failure() const override { return std::nullopt; }
};

}  // namespace

model::Result<std::vector<std::string>> ControlChannel::gather(const std::string& bytes) {
  if (rank() > 0) {
    TRY(send(0, bytes));
    return std::vector<std::string>{};
  }
  std::vector<std::string> all{bytes};
  for (std::int32_t other = 1; other < ranks(); ++other) {
    auto own = TRY(receive(other));
    all.push_back(std::move(own));
  }
  return all;
}

model::Result<std::string> ControlChannel::broadcast(const std::string& bytes) {
  if (rank() > 0) return receive(0);
  for (std::int32_t other = 1; other < ranks(); ++other) TRY(send(other, bytes));
  return bytes;
}

model::Result<std::vector<double>> ControlChannel::sum(const std::vector<double>& values) {
  using Values = std::vector<double>;
  const auto parts = TRY(gather(model::to_bytes(values)));
  Values sums(rank() == 0 ? values.size() : 0);
  for (const std::string& bytes : parts) {
    const Values part = model::from_bytes<Values>(bytes).value_or(Values());
    if (part.size() == values.size())
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    else
      sums.clear();
  }
  sums = model::from_bytes<Values>(TRY(broadcast(model::to_bytes(sums)))).value_or(Values());
  if (sums.size() != values.size()) return infeasible("ranks sum different numbers of values");
  return sums;
}

std::unique_ptr<ControlChannel> lone_channel() { return std::make_unique<LoneChannel>(); }

}  // namespace plumbline::real
