#include "model/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model/base/parameter_file.h"
#include "model/base/text_file.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

const std::vector<std::string> text_keys = {"name", "description", "extends"};
const std::vector<std::string> list_keys = {"devices"};

std::string_view name_of(const Parameter& parameter) { return parameter.name; }

Error extends_error(const ParameterFile& file, std::string message, std::string hint) {
  return Error{ErrorKind::input, std::move(message), file.path, file.text("extends")->line, "extends", std::move(hint)};
}

// Returns the file of a base: next to the one that extends it, else in `shipped`; "" where there is none.
std::string base_file(const std::string& base, const std::filesystem::path& folder, const std::string& shipped) {
  const std::string name = base + ".toml";
  if (std::filesystem::exists(folder / name)) return (folder / name).string();
  const std::filesystem::path file = std::filesystem::path(shipped) / name;
  return !shipped.empty() && std::filesystem::exists(file) ? file.string() : "";
}

Error no_base(const ParameterFile& file, const std::string& base, const std::filesystem::path& folder,
              const std::string& shipped) {
  std::vector<std::string> names = names_in_folder(folder.empty() ? "." : folder, ".toml");
  if (!shipped.empty()) std::ranges::copy(names_in_folder(shipped, ".toml"), std::back_inserter(names));
  return extends_error(
      file,
      fmt::format("no profile '{}' in the same folder{}", base, shipped.empty() ? "" : ", and none that is shipped"),
      did_you_mean(base, names, "give the name without .toml"));
}

Result<void> check_constants(const ParameterFile& file) {
  for (const ParameterFile::Number& number : file.numbers) {
    if (const auto allowed = check_constant(number.parameter); !allowed) {
      Error error = allowed.error();
      error.file = file.path;
      error.line = number.line;
      return tl::unexpected(std::move(error));
    }
  }
  return {};
}

// Returns the list of the first file that has one.
std::vector<std::string> devices_of(const std::vector<ParameterFile>& chain) {
  std::vector<std::string> devices;
  for (const ParameterFile& file : chain) {
    for (const ParameterFile::Text& text : file.texts)
      if (text.key == list_keys.front()) devices.push_back(text.value);
    if (!devices.empty()) break;
  }
  return devices;
}

// Reads the files from the named one to the last that it extends.
Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped) {
  std::vector<ParameterFile> chain;
  for (std::string next = path; !next.empty();) {
    auto file = TRY(read_parameter_file(next, text_keys, list_keys));
    TRY(check_constants(file));
    chain.push_back(std::move(file));
    const std::string base = chain.back().text_or_empty("extends");
    if (base.empty()) break;
    const std::filesystem::path folder = std::filesystem::path(next).parent_path();
    next = base_file(base, folder, shipped);
    if (next.empty()) return tl::unexpected(no_base(chain.back(), base, folder, shipped));
    if (std::ranges::find(chain, next, &ParameterFile::path) != chain.end())
      return tl::unexpected(extends_error(chain.back(), fmt::format("'{}' extends itself", base), "remove the circle"));
  }
  return chain;
}

}  // namespace

Profile::Profile(std::string name, std::string description, std::vector<Parameter> parameters,
                 std::vector<std::string> devices)
    : name_(std::move(name)),
      description_(std::move(description)),
      parameters_(std::move(parameters)),
      devices_(std::move(devices)) {
  std::ranges::sort(parameters_, {}, name_of);
}

std::optional<std::size_t> Profile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(parameters_, name, {}, name_of);
  if (found == parameters_.end() || found->name != name) return std::nullopt;
  return static_cast<std::size_t>(found - parameters_.begin());
}

Result<Profile> Profile::with_changes(const std::vector<ConstantChange>& changes) const {
  if (changes.empty()) return *this;
  Profile changed = *this;
  std::vector<Parameter*> constants;
  for (Parameter& parameter : changed.parameters_) constants.push_back(&parameter);
  for (const ConstantChange& change : changes) {
    TRY(apply_change(change, constants));
  }
  for (const Parameter* constant : constants)
    if (!(*constant == parameters_[static_cast<std::size_t>(constant - changed.parameters_.data())]))
      TRY(check_constant(*constant));
  changed.name_ += " (changed)";
  return changed;
}

Result<Profile> load_profile(const std::string& path, const std::string& shipped) {
  auto chain = TRY(read_chain(path, shipped));
  std::map<std::string, Parameter> merged;
  // Extending files come first, and the first entry of a name stays.
  for (ParameterFile& file : chain) {
    for (ParameterFile::Number& number : file.numbers) {
      const std::string name = number.parameter.name;
      merged.try_emplace(name, std::move(number.parameter));
    }
  }
  std::vector<Parameter> parameters;
  for (auto& [name, parameter] : merged) parameters.push_back(std::move(parameter));
  const ParameterFile& own = chain.front();
  std::string name = own.text_or_empty("name");
  if (name.empty()) name = std::filesystem::path(path).stem().string();
  return Profile(std::move(name), own.text_or_empty("description"), std::move(parameters), devices_of(chain));
}

}  // namespace plumbline::model
