#include "cli/outputs.h"

#include <algorithm>

#include "cli/output.h"

namespace plumbline::cli {

void Outputs::add(CLI::App& verb, const std::string& option, const std::string& help) {
  verb.add_option(option, paths_[option], help);
}

bool Outputs::any() const {
  return std::ranges::any_of(paths_, [](const auto& output) { return !output.second.empty(); });
}

bool Outputs::to_stdout() const {
  return std::ranges::any_of(paths_, [](const auto& output) { return output.second == "-"; });
}

model::Result<void> Outputs::check() const {
  const auto dash = [](const auto& output) { return output.second == "-"; };
  if (std::ranges::count_if(paths_, dash) < 2) return {};
  const std::string& first = std::ranges::find_if(paths_, dash)->first;
  return tl::unexpected(model::Error{model::ErrorKind::input, "only one output can go to stdout", "", 0, first,
                                     paths_.size() > 2 ? "give the others a file" : "give the other a file"});
}

model::Result<void> Outputs::write(std::initializer_list<Form> forms) const {
  for (const Form& form : forms) {
    if (!given(form.option)) continue;
    if (auto written = write_output(paths_.at(form.option), form.content()); !written) return written;
  }
  return {};
}

}  // namespace plumbline::cli
