#include "model/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "model/base/parameter_file.h"
#include "model/base/text_file.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

std::string_view name_of(const Parameter& parameter) { return parameter.name; }

// Returns the stack that the profile names; of a file in the folder of the one that names it the path.
std::string stack_of(const ParameterFile& file) {
  const ParameterFile::Text* stack = file.text("stack");
  if (stack == nullptr) return "";
  std::string adjacent = (std::filesystem::path(stack->path).parent_path() / stack->value).string();
  return is_file(adjacent) ? adjacent : stack->value;
}

// Returns the fits of all files, each without the constants that a file before it states. Errors: a constant that no
// file has, or that is in two fits.
Result<std::vector<ConstantFit>> fits_of(const std::vector<ParameterFile>& chain) {
  std::set<std::string, std::less<>> all, replaced, fitted;
  for (const ParameterFile& file : chain)
    for (const ParameterFile::Number& number : file.numbers) all.insert(number.parameter.name);
  std::vector<ConstantFit> fits;
  for (const ParameterFile& file : chain) {
    for (const auto& [fit, line] : file.fits) {
      std::set<std::string> own;
      for (const std::vector<std::string>& entry : fit.constants)
        for (const std::string& name : entry) {
          if (!all.contains(name))
            return wrong_input_at(file.path, line, "fit.constants", fmt::format("unknown constant '{}'", name),
                                  did_you_mean(name, {all.begin(), all.end()}));
          if (!own.insert(name).second)
            return wrong_input_at(file.path, line, "fit.constants", fmt::format("'{}' is there twice", name),
                                  "remove one");
        }
      for (ConstantFit& left :
           kept({fit}, [&](const std::string& name) { return !replaced.contains(name) && !fitted.contains(name); }))
        fits.push_back(std::move(left));
      fitted.insert(own.begin(), own.end());
    }
    for (const ParameterFile::Number& number : file.numbers) replaced.insert(number.parameter.name);
  }
  return fits;
}

}  // namespace

Profile::Profile(std::string name, std::string description, std::vector<Parameter> parameters,
                 std::vector<std::string> devices, std::string stack, std::vector<ConstantFit> fits)
    : name_(std::move(name)),
      description_(std::move(description)),
      parameters_(std::move(parameters)),
      devices_(std::move(devices)),
      stack_(std::move(stack)),
      fits_(std::move(fits)) {
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
  for (const ConstantChange& change : changes) TRY(apply_change(change, constants));
  std::set<std::string> replaced;
  for (const Parameter* constant : constants)
    if (!(*constant == parameters_[static_cast<std::size_t>(constant - changed.parameters_.data())])) {
      TRY(check_constant(*constant));
      replaced.insert(constant->name);
    }
  changed.fits_ = kept(fits_, [&](const std::string& name) { return !replaced.contains(name); });
  changed.name_ += " (changed)";
  return changed;
}

Result<Profile> load_profile(const std::string& path, const std::string& shipped) {
  auto chain = TRY(read_chain(path, shipped,
                              {.what = "profile",
                               .text_keys = {"name", "description", "extends", "stack"},
                               .list_keys = {"devices"},
                               .form = ParameterForm::profile,
                               .check = check_constants}));
  auto fits = TRY(fits_of(chain));
  const ParameterFile file = joined(std::move(chain));
  return Profile(file.name(), file.text_or_empty("description"), take_constants(file), file.values("devices"),
                 stack_of(file), std::move(fits));
}

}  // namespace plumbline::model
