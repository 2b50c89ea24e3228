#include "real/executor/control_channel.h"

#include <cstring>
#include <utility>

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

std::string bytes_of(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<double> numbers_of(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

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
  const auto texts = TRY(gather(bytes_of(values)));
  std::vector<double> sums(rank() == 0 ? values.size() : 0);
  for (const std::string& text : texts) {
    const std::vector<double> part = numbers_of(text);
    if (part.size() == values.size())
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    else
      sums.clear();
  }
  const auto all = TRY(broadcast(bytes_of(sums)));
  sums = numbers_of(all);
  if (sums.size() != values.size()) return infeasible("ranks sum different numbers of values");
  return sums;
}

std::unique_ptr<ControlChannel> lone_channel() { return std::make_unique<LoneChannel>(); }

}  // namespace plumbline::real
