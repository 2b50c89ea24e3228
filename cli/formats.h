// The list of formats of other programs that `import` and `export` take by name.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "reports/text/table.h"

namespace plumbline::cli {

template <class Arguments>
struct Format {
  std::string_view name;
  std::string_view what;  // description for the help
  model::Result<void> (*run)(const Arguments&);
};

template <class Arguments>
std::vector<std::string> format_names(std::span<const Format<Arguments>> formats) {
  std::vector<std::string> names;
  for (const Format<Arguments>& format : formats) names.emplace_back(format.name);
  return names;
}

// Runs the format of that name; an unknown one is an input error with the nearest name.
template <class Arguments>
model::Result<void> run_format(std::span<const Format<Arguments>> formats, const std::string& name,
                               const Arguments& arguments) {
  const auto found = std::ranges::find(formats, name, &Format<Arguments>::name);
  if (found != formats.end()) return found->run(arguments);
  return model::wrong_input("FORMAT", fmt::format("unknown format '{}'", name),
                            model::known_names(name, format_names(formats)));
}

// Returns a line of the help for each format, and further ones below a long description.
template <class Arguments>
std::string format_list(std::span<const Format<Arguments>> formats) {
  std::size_t width = 0;
  for (const Format<Arguments>& format : formats) width = std::max(width, format.name.size());
  std::string text = "Formats:\n";
  for (const Format<Arguments>& format : formats)
    text += fmt::format("  {:<{}}  {}", format.name, width, reports::hanging(format.what, width + 4));
  return text;
}

}  // namespace plumbline::cli
