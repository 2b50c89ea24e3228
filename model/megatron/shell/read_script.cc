#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/shell/detail/evaluator.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::size_t most_readings = 256;

// Returns the outcomes of the next reading: the last decision that has a further outcome takes it.
std::vector<std::size_t> next_outcomes(const std::vector<Decision>& decisions) {
  std::vector<std::size_t> taken;
  for (std::size_t last = decisions.size(); last > 0; --last) {
    const Decision& decision = decisions[last - 1];
    if (decision.taken + 1 >= decision.outcomes.size()) continue;
    for (std::size_t i = 0; i + 1 < last; ++i) taken.push_back(decisions[i].taken);
    taken.push_back(decision.taken + 1);
    break;
  }
  return taken;
}

Error too_many(const std::vector<Decision>& decisions, const ShellInputs& inputs) {
  std::set<std::string> names;
  for (const Decision& decision : decisions) names.insert(decision.names.begin(), decision.names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return {ErrorKind::input,
          fmt::format("{} conditions depend on what is outside of the script", decisions.size()),
          inputs.path,
          decisions.front().line % lines_of_a_file,
          "",
          list.empty() ? "" : fmt::format("--define some of {}", list)};
}

}  // namespace

std::string place_of(const std::vector<std::string>& files, int line) {
  const auto file = static_cast<std::size_t>(line / lines_of_a_file);
  const std::string& name = files[std::min(file, files.size() - 1)];
  return line > 0 ? fmt::format("{}:{}", name, line % lines_of_a_file) : name;
}

Result<std::vector<Script>> read_script(std::string_view text, const ShellInputs& inputs) {
  std::vector<Script> readings;
  Budget budget;
  std::vector<std::size_t> outcomes;
  do {
    readings.push_back(TRY(Evaluator(inputs, budget, outcomes).run(text)));
    outcomes = next_outcomes(readings.back().decisions);
    if (readings.size() == most_readings && !outcomes.empty())
      return tl::unexpected(too_many(readings.front().decisions, inputs));
  } while (!outcomes.empty());
  return readings;
}

}  // namespace plumbline::model::megatron
