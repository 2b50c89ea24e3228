#include "model/plan/alternative.h"

#include <fmt/format.h>

#include <string_view>

#include "model/base/text.h"

namespace plumbline::model {

std::map<std::string, std::string, std::less<>> plan_values(const Plan& plan) {
  std::map<std::string, std::string, std::less<>> values;
  std::string section;
  const std::string all = to_toml(plan);
  for (const std::string_view line : lines_of(all)) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('[')) section = std::string(line.substr(1, line.size() - 2));
    if (!line.starts_with('[') && !line.starts_with('#') && equals != std::string_view::npos)
      values[fmt::format("{}.{}", section, line.substr(0, equals))] = std::string(line.substr(equals + 3));
  }
  return values;
}

}  // namespace plumbline::model
