#include "real/executor/control_channel.h"

#include <cstring>

#include "real/executor/infeasible.h"

namespace plumbline::real {

namespace {

class LoneChannel final : public ControlChannel {
 public:
  std::int32_t rank() const override { return 0; }
  std::int32_t ranks() const override { return 1; }
  model::Result<std::vector<std::string>> gather(const std::string& bytes) override { return std::vector{bytes}; }
  model::Result<std::string> broadcast(const std::string& bytes) override { return bytes; }
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
