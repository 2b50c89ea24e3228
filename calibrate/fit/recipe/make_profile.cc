#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "calibrate/fit/recipe/profile_maker.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/statistics.h"
#include "model/base/table_reader.h"
#include "model/base/text_file.h"
#include "model/base/units.h"
#include "model/cost/constants.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {
namespace {

using model::TableReader;

const std::vector<std::string> known_fits = {
#define FIT_STEP(name, run) #name,
#include "calibrate/fit/recipe/detail/fit_steps.def"
};

RecipeStep read_step(TableReader& table, const std::string& path) {
  RecipeStep step;
  step.path = path;
  step.line = table.line();
  READ_OPTIONAL(table, step, fit, neighbor, kind, format, software, kernel, op, tables, constant, quantizes,
                uses_nvlink, switch_sums, share, uncertainty, constants, by, over, times, rename, to, same, because);
  if (step.fit.empty() == step.neighbor.empty())
    table.fail("fit", step.line, "a step either fits or takes constants of a neighbor",
               "give one of fit = \"...\" and neighbor = \"...\"");
  if (!step.fit.empty() && std::ranges::find(known_fits, step.fit) == known_fits.end())
    table.fail("fit", table.line_of("fit"), "unknown fit", model::known_names(step.fit, known_fits));
  if (!step.neighbor.empty()) table.require("constants");
  return step;
}

model::Result<std::vector<RecipeStep>> shared_steps(const std::string& path) {
  std::vector<RecipeStep> steps;
  TRY(model::read_table_file(path, [&](TableReader& file) {
    file.optional_tables("step", [&](TableReader& table) { steps.push_back(read_step(table, path)); });
  }));
  return steps;
}

// Reads what a table that names files of steps states for each of them, in place of what the file states.
void read_instead(TableReader& table, RecipeStep& step) {
  const auto text = [&](const char* key, std::string& value) {
    if (table.has(key)) value = table.text(key);
  };
  if (!step.neighbor.empty()) text("neighbor", step.neighbor);
  text("tables", step.tables);
  text("because", step.because);
  if (const auto times = table.optional_positive("times")) step.times = times;
  if (const auto uncertainty = table.optional_positive("uncertainty")) step.uncertainty = uncertainty;
}

// Reads a table of [[step]], which is a step or names files of steps. Returns the error of such a file.
model::Result<void> read_steps(TableReader& table, Recipe& recipe) {
  if (!table.has("steps")) {
    recipe.steps.push_back(read_step(table, recipe.path));
    return {};
  }
  const std::filesystem::path folder = std::filesystem::path(recipe.path).parent_path() / "steps";
  for (const std::string& name : table.texts("steps")) {
    const std::string path = (folder / (name + ".toml")).string();
    if (!model::is_file(path)) {
      table.fail("steps", table.line_of("steps"), "no steps '" + name + "' in " + folder.string(),
                 model::known_names(name, model::names_in_folder(folder.string(), ".toml")));
      return {};
    }
    for (RecipeStep& step : TRY(shared_steps(path))) {
      read_instead(table, step);
      recipe.steps.push_back(std::move(step));
    }
  }
  return {};
}

double product(const Draft::Errors& a, const Draft::Errors& b) {
  double sum = 0;
  for (const auto& [number, weight] : a)
    if (const auto found = b.find(number); found != b.end()) sum += weight * found->second;
  return sum;
}

// Constants with one error.
struct Fact {
  Draft::Errors errors;
  std::vector<std::string> constants;
};

model::Result<void> run_step(Draft& draft) {
  const std::string& fit = draft.step().fit;
#define FIT_STEP(name, run) \
  if (fit == #name) return run(draft);
#include "calibrate/fit/recipe/detail/fit_steps.def"
  return take_neighbor_step(draft);
}

// Adds the errors on rows that the fits did not use as the residual of each family that has a table or records.
void set_residuals(Draft& draft) {
  struct Residual {
    const char* family;  // how that of the rows begins
    model::CostFamily of;
  };
  constexpr std::array<Residual, 8> families = {{{"gemm", model::CostFamily::gemm},
                                                 {"decode gemm", model::CostFamily::small_gemm},
                                                 {"decode experts", model::CostFamily::small_grouped_gemm},
                                                 {"experts", model::CostFamily::grouped_gemm},
                                                 {"attention", model::CostFamily::attention},
                                                 {"decode_", model::CostFamily::cached_attention},
                                                 {"collectives", model::CostFamily::collective},
                                                 {"exchange", model::CostFamily::all_to_all}}};
  const auto set = [&](model::CostFamily family, const std::vector<double>& errors, const std::string& rows) {
    if (errors.empty()) return;
    draft.set(fmt::format("residual.{}", to_string(family)), deviation_of(errors), "1", std::nullopt,
              model::Evidence::measured, fmt::format("80 % of {} {} are within 1.28 deviations", errors.size(), rows));
  };
  for (const auto& [family, of] : families) {
    std::vector<double> errors;
    for (const HeldOut& table : draft.held_out)
      if (table.family.starts_with(family)) errors.insert(errors.end(), table.large.begin(), table.large.end());
    set(of, errors,
        fmt::format("rows of {} that no fit used (calibrate/published/components/{})",
                    of == model::CostFamily::collective              ? "4 MiB and more"
                    : std::string_view(family).starts_with("decode") ? "few tokens"
                                                                     : "1,024 tokens and more",
                    draft.recipe().tables));
  }
  set(model::CostFamily::memory_bound, draft.memory_records,
      fmt::format("records of calibrate/measured/{}, each by the others of its operator", draft.recipe().measured));
}

namespace fs = std::filesystem;

std::string toml_file(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / (name + ".toml")).string();
}

// Returns the base with the constants in place of those of the same name.
model::Profile merged(const Recipe& recipe, const model::Profile& base, const MadeProfile& made) {
  const auto stays = [&](const std::string& name) {
    return std::ranges::find(made.constants, name, &model::Parameter::name) == made.constants.end();
  };
  std::vector<model::Parameter> parameters = made.constants;
  std::ranges::copy_if(base.parameters(), std::back_inserter(parameters), stays, &model::Parameter::name);
  std::vector<model::ConstantFit> fits = model::kept(base.fits(), stays);
  std::ranges::copy(made.fits, std::back_inserter(fits));
  return {recipe.name, recipe.description, std::move(parameters), recipe.devices, "", std::move(fits)};
}

// Steps of a recipe that fit constants to the project's own records of a GPU. Clocks of tables are the highest, as
// bursts have them; the records were taken back to back, at the power limit. So times that the SMs bound are taken at
// the recorded clock over the highest: a kernel at 1,700 of 1,980 MHz counts 0.86 of its time.

using Eigen::VectorXd;
using model::Evidence;

std::string cited_records(const Draft& draft) { return "calibrate/measured/" + draft.recipe().measured; }

constexpr const char* highest_mhz = "highest_sm_mhz";

// Returns the records for which the predicate holds.
template <class Predicate>
std::vector<FitRecord> those(const std::vector<FitRecord>& records, const Predicate& predicate) {
  std::vector<FitRecord> found;
  std::ranges::copy_if(records, std::back_inserter(found), predicate);
  return found;
}

// Returns the seconds at the highest clock.
VectorXd unthrottled(const std::vector<FitRecord>& records, double highest) {
  return vector_of(records, [highest](const FitRecord& record) {
    return record.seconds * std::min(1.0, record.measurement->clock.sm_mhz.value_or(highest) / highest);
  });
}

model::Failure none(const Draft& draft, const std::string& what) {
  return draft.wrong("step.fit", fmt::format("{} has no {}", cited_records(draft), what));
}

constexpr double backward_dims = 640;  // 3 of queries and keys and 2 of values, of head dimension 128

struct Factor {
  double value = 1, deviation = 0;
};

// Returns the seconds of the GEMMs by the constants.
VectorXd gemm_seconds_of(const Draft& draft, const std::vector<FitRecord>& records,
                         const model::GemmConstants& constants, const std::string& format, double output_bytes) {
  const double sms = static_cast<double>(draft.machine().device.sms), ramp = draft.si("gemm.ramp").value_or(0);
  return vector_of(records, [&](const FitRecord& record) {
    return ramp + gemm_core_seconds(constants,
                                    {.m = record.extent("m"),
                                     .n = record.extent("n"),
                                     .k = record.extent("k"),
                                     .operand_bytes = operand_bytes(format),
                                     .output_bytes = output_bytes},
                                    sms);
  });
}

constexpr double k_time_width = 0.1;  // of the loss

// Returns the factor on k_time with which the constants predict the GEMMs, whose results are written in 16 bits.
Factor k_time_factor(const Draft& draft, const std::vector<FitRecord>& records, const VectorXd& measured,
                     const model::GemmConstants& constants, const std::string& format) {
  constexpr double result = 2;
  const Form form = [&](const VectorXd& x) {
    model::GemmConstants scaled = constants;
    scaled.k_time *= x[0];
    return gemm_seconds_of(draft, records, scaled, format, result);
  };
  const LogFit fit = log_fit(form, measured, VectorXd::Ones(1), {.width = k_time_width});
  return {fit.values[0], fit.uncertainty[0]};
}

struct GradientFactors {
  Factor k_time, exponent;  // a factor on the constants' k_time; the memory's exponent and its relative deviation
  double correlation = 0;
};

// Returns with which factor on k_time and which exponent of the memory the constants predict weight gradients, whose
// results are read and written in FP32.
GradientFactors gradient_factors(const Draft& draft, const std::vector<FitRecord>& records, const VectorXd& measured,
                                 const model::GemmConstants& constants, const std::string& format) {
  constexpr double accumulated = 8, usual_over_one = 0.5;
  const Form form = [&](const VectorXd& x) {
    model::GemmConstants scaled = constants;
    scaled.k_time *= x[0];
    scaled.memory_exponent = 1 + x[1];
    return gemm_seconds_of(draft, records, scaled, format, accumulated);
  };
  VectorXd start(2);
  start << 1, usual_over_one;
  const LogFit fit = log_fit(form, measured, start, {.width = k_time_width});
  const double over_one = fit.values[1], exponent = 1 + over_one;
  return {{fit.values[0], fit.uncertainty[0]},
          {exponent, fit.uncertainty[1] * over_one / exponent},
          correlation_of(fit, {0, 1})[0][0]};
}

}  // namespace

bool RecipeStep::names(const std::string& of) const {
  return std::ranges::any_of(software, [&](const std::string& start) { return of.starts_with(start); });
}

model::Result<Recipe> load_recipe(const std::string& path) {
  Recipe recipe;
  recipe.path = path;
  std::optional<model::Error> wrong;  // of a file of steps
  TRY(model::read_table_file(path, [&](TableReader& file) {
    READ_REQUIRED(file, recipe, name, description, extends, about, devices);
    READ_OPTIONAL(file, recipe, stack, tables, measured, stated);
    file.optional_tables("step", [&](TableReader& table) {
      if (const auto read = read_steps(table, recipe); !read && !wrong) wrong = read.error();
    });
  }));
  if (wrong) return tl::unexpected(*wrong);
  return recipe;
}

model::Result<Draft> Draft::begin(const Recipe& recipe, const RecipeInputs& inputs) {
  Draft draft;
  draft.recipe_ = &recipe;
  draft.inputs_ = &inputs;
  draft.base_ = TRY(inputs.profile(recipe.extends));
  draft.device_ = TRY(topologies::load_device(inputs.devices, recipe.devices.front(), draft.figures_)).device;
  if (recipe.stated.empty()) return draft;
  const auto stated =
      TRY(model::load_profile((std::filesystem::path(inputs.stated) / (recipe.stated + ".toml")).string()));
  for (const model::Parameter& parameter : stated.parameters()) draft.set(parameter);
  return draft;
}

void Draft::set(model::Parameter parameter) {
  const std::string name = parameter.name;
  own_.insert_or_assign(name, std::move(parameter));
  order_[name] = ++settings_;
  errors_.insert_or_assign(name, Errors{{fmt::format("{}: {}", settings_, name), 1.0}});
}

void Draft::set(const std::string& name, double si, const std::string& unit, std::optional<double> uncertainty,
                model::Evidence kind, const std::string& source) {
  constexpr int digits = 4, uncertainty_digits = 2;
  if (step_ != nullptr && step_->uncertainty) uncertainty = std::max(*step_->uncertainty, uncertainty.value_or(0));
  model::Parameter parameter;
  parameter.name = name;
  parameter.value = rounded(si / model::si_unit(unit)->factor, digits);
  parameter.unit = unit;
  parameter.kind = kind;
  parameter.source = source;
  if (step_ != nullptr && !step_->because.empty()) parameter.source += "; " + step_->because;
  if (uncertainty && std::isfinite(*uncertainty))
    parameter.relative_uncertainty = rounded(*uncertainty, uncertainty_digits);
  set(std::move(parameter));
}

void Draft::set(const std::vector<Fitted>& constants, const std::string& how, model::Evidence kind) {
  for (const auto& [name, value, unit, deviation] : constants) set(name, value, unit, deviation, kind, how);
}

void Draft::correlate(const std::vector<Fitted>& constants, const std::vector<std::vector<double>>& correlation) {
  model::ConstantFit fit{{}, correlation};
  for (const Fitted& constant : constants) fit.constants.push_back({constant.name});
  const std::vector<std::vector<double>> factor = model::factor_of(fit);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    Errors errors;
    for (std::size_t j = 0; j <= i; ++j) errors[fmt::format("{} of {}", constants[j].name, settings_)] = factor[i][j];
    share(constants[i].name, errors, constants[i].deviation, constants[i].name);
  }
}

void Draft::share(const std::string& name, const Errors& other, std::optional<double> uncertainty,
                  const std::string& why) {
  const double own = find(name)->relative_uncertainty.value_or(0), of_other = uncertainty.value_or(0);
  const double weight = own > 0 ? std::min(1.0, rounded(of_other, 2) / own) : 1;
  Errors errors;
  std::string more = why;
  for (const auto& [number, part] : other) {
    errors[number] = weight * part;
    more += ", " + number;
  }
  if (weight < 1) errors[more] = std::sqrt(1 - weight * weight);
  errors_.insert_or_assign(name, std::move(errors));
}

const model::Parameter* Draft::find(const std::string& name) const {
  if (const auto found = own_.find(name); found != own_.end()) return &found->second;
  const auto figure = std::ranges::find(figures_, name, &model::Parameter::name);
  if (figure != figures_.end()) return &*figure;
  const auto index = base_.find(name);
  return index ? &base_.parameters()[*index] : nullptr;
}

std::optional<double> Draft::si(const std::string& name) const {
  if (name == "derived.attention_pair") return attention_pair([this](const std::string& of) { return si(of); });
  const model::Parameter* parameter = find(name);
  return parameter == nullptr ? std::nullopt : std::optional(si_value(*parameter));
}

model::Failure Draft::wrong(const std::string& key, const std::string& message, const std::string& hint) const {
  if (step_ == nullptr) return model::wrong_input_at(recipe_->path, 0, key, message, hint);
  return model::wrong_input_at(step_->path, step_->line, key, message, hint);
}

FitMachine Draft::machine() const {
  return {device_, si("network.nvlink_line_rate").value_or(0), si("network.nic_line_rate").value_or(0),
          si("gemm.small_m_tile").value_or(model::SmallGemmConstants{}.tile)};
}

const std::string& Draft::tables() const {
  return step_ == nullptr || step_->tables.empty() ? recipe_->tables : step_->tables;
}

std::string Draft::table(const std::string& name) const {
  return (std::filesystem::path(inputs_->components) / tables() / (name + ".csv")).string();
}

std::string Draft::cited(const std::string& name) const {
  return fmt::format("calibrate/published/components/{}/{}.csv", tables(), name);
}

model::Result<const Measurements*> Draft::measured() {
  if (measured_.empty()) measured_.push_back(TRY(inputs_->measurements(recipe_->measured)));
  return &measured_.front();
}

model::Result<const FitRecords*> Draft::records() {
  TRY(measured());
  if (!records_) records_ = TRY(fit_records(measured_));
  return &*records_;
}

std::vector<model::Parameter> Draft::constants() const {
  std::vector<model::Parameter> all;
  for (const auto& [name, parameter] : own_) all.push_back(parameter);
  return all;
}

std::vector<model::ConstantFit> Draft::fits() const {
  std::map<std::size_t, std::string> names;  // a copy stands after what it is a copy of
  for (const auto& [name, order] : order_) names[order] = name;
  std::vector<Fact> facts;
  for (const auto& [order, name] : names) {
    if (own_.at(name).relative_uncertainty.value_or(0) == 0) continue;
    const auto same = std::ranges::find(facts, errors_of(name), &Fact::errors);
    if (same == facts.end())
      facts.push_back({errors_of(name), {name}});
    else
      same->constants.push_back(name);
  }
  return correlated_fits(
      std::move(facts), [](const Fact& fact) { return fact.constants; },
      [](const Fact& a, const Fact& b) { return product(a.errors, b.errors); });
}

std::optional<model::GemmConstants> gemm_constants(const Draft& draft, const std::string& kind) {
  model::GemmConstants c;
  const auto take = [&](const std::string& name, double& value) {
    const auto found = draft.si(name);
    value = found.value_or(value);
    return found.has_value();
  };
  const auto own = [&](const char* what, double& value) { return take(fmt::format("gemm.{}.{}", kind, what), value); };
  if (!own("k_time", c.k_time) || !own("tile_m", c.tile_m) || !own("tile_n", c.tile_n)) return std::nullopt;
  take("gemm.k_block", c.k_block);
  take("gemm.ramp", c.ramp);
  own("ramp", c.ramp);
  own("wave_overhead", c.wave_overhead);
  own("wave_share", c.wave_share);
  own("memory_bandwidth", c.memory_bandwidth);
  own("memory_exponent", c.memory_exponent);
  own("droop", c.droop);
  own("droop_time", c.droop_time);
  return c;
}

model::Result<MadeProfile> make_profile(const Recipe& recipe, const RecipeInputs& inputs) {
  auto draft = TRY(Draft::begin(recipe, inputs));
  for (const RecipeStep& step : recipe.steps) {
    draft.at(&step);
    TRY(run_step(draft));
  }
  draft.at(nullptr);
  set_residuals(draft);
  MadeProfile made;
  made.constants = draft.constants();
  made.fits = draft.fits();
  std::vector<std::string> about = recipe.about;
  about.push_back(fmt::format(
      "Made by `plumbline calibrate --profile {0}` from calibrate/recipes/{0}.toml: change that.", recipe.name));
  made.text =
      profile_text({recipe.name, recipe.description, recipe.extends, recipe.devices, recipe.stack, std::move(about)},
                   made.constants, made.fits);
  made.held_out = std::move(draft.held_out);
  made.notes = std::move(draft.notes);
  return made;
}

std::vector<std::string> ProfileMaker::names() const { return model::names_in_folder(folders_.recipes, ".toml"); }

model::Result<const MadeProfile*> ProfileMaker::make(const std::string& name) {
  if (const auto found = made_.find(name); found != made_.end()) {
    if (found->second != nullptr) return found->second.get();
    return model::wrong_input_at(toml_file(folders_.recipes, name), 0, "step.neighbor",
                                 fmt::format("the recipe of '{}' needs itself", name), "break the circle");
  }
  const std::vector<std::string> known = names();
  if (std::ranges::find(known, name) == known.end())
    return model::wrong_input("--profile", fmt::format("no recipe makes a profile '{}'", name),
                              model::known_names(name, known));
  made_[name] = nullptr;
  auto made = run(name);
  if (!made) {
    made_.erase(name);
    return tl::unexpected(made.error());
  }
  auto& kept = made_[name];
  kept = std::make_unique<MadeProfile>(std::move(*made));
  return kept.get();
}

model::Result<MadeProfile> ProfileMaker::run(const std::string& name) {
  const auto recipe = TRY(load_recipe(toml_file(folders_.recipes, name)));
  const RecipeInputs inputs{.devices = folders_.devices,
                            .components = folders_.components,
                            .stated = (fs::path(folders_.recipes) / "stated").string(),
                            .measurements = [this](const std::string& file) -> model::Result<Measurements> {
                              const auto devices = TRY(topologies::load_devices(folders_.devices));
                              return load_measurements((fs::path(folders_.measured) / file).string(), devices);
                            },
                            .profile = [this](const std::string& wanted) { return profile(wanted); }};
  auto made = TRY(make_profile(recipe, inputs));
  const auto base = TRY(profile(recipe.extends));
  profiles_.insert_or_assign(name, merged(recipe, base, made));
  return made;
}

model::Result<model::Profile> ProfileMaker::profile(const std::string& name) {
  if (name.starts_with("stated/")) return model::load_profile(toml_file(folders_.recipes, name));
  if (!model::is_file(toml_file(folders_.recipes, name))) {
    const std::string path = toml_file(folders_.profiles, name);
    if (model::is_file(path)) return model::load_profile(path);
    return model::wrong_input("step.neighbor", fmt::format("neither a recipe nor a profile '{}'", name),
                              model::did_you_mean(name, names()));
  }
  TRY(make(name));
  return profiles_.at(name);
}

// Takes the ratio of weight gradients to other GEMMs from the records, where both ran under one power limit, and how
// far their products hide the sums that they read and write.
model::Result<void> fit_weight_gradient_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const FitRecords& records = *TRY(draft.records());
  const std::string gradient_kind = step.kind + "_weight_gradient";
  const auto constants = gemm_constants(draft, step.kind), of_gradients = gemm_constants(draft, gradient_kind);
  if (!constants)
    return draft.wrong("step.kind", fmt::format("gemm.{} is not fitted yet", step.kind),
                       "fit gemm before weight_gradient");
  if (!of_gradients || of_gradients->memory_bandwidth == 0)
    return draft.wrong("step.kind", fmt::format("gemm.{} has no tile or no memory_bandwidth", gradient_kind),
                       fmt::format("copy gemm.{} before weight_gradient", step.kind));
  const auto single = [&](std::string_view phase) {
    return those(records.gemms, [&](const FitRecord& record) {
      return record.measurement->phase == phase && record.format == step.format && record.extent("groups") <= 1;
    });
  };
  auto forward = single("F");
  std::ranges::copy(single("I"), std::back_inserter(forward));
  const auto gradient = single("W");
  if (forward.empty() || gradient.size() < 3) return none(draft, "three " + step.format + " GEMMs of each phase");
  const std::string format = step.format == "fp8_tensor" ? "fp8" : step.format;
  const double highest = environment_number(*TRY(draft.measured()), highest_mhz);
  const Factor of_forward = k_time_factor(draft, forward, unthrottled(forward, highest), *constants, format);
  const Factor held = k_time_factor(draft, forward, seconds_of(forward), *constants, format);
  const GradientFactors of_gradient =
      gradient_factors(draft, gradient, unthrottled(gradient, highest), *of_gradients, format);
  const double flops = 2 * constants->tile_m * constants->tile_n * static_cast<double>(draft.machine().device.sms);
  const double rate = flops / constants->k_time * 1e-12;
  draft.notes.push_back(
      fmt::format("gemm.{}: {:.0f} TFLOP/s by public tables, taken; own records back to back {:.0f} ({:+.0f} %), at "
                  "the highest clock "
                  "{:.0f} ({:+.0f} %)",
                  step.kind, rate, rate / held.value, 100 / held.value - 100, rate / of_forward.value,
                  100 / of_forward.value - 100));
  const double ratio = of_gradient.k_time.value * of_gradients->k_time / (of_forward.value * constants->k_time);
  const std::string forwards = fmt::format("gemm.{}.k_time", step.kind);
  const std::string gradients = fmt::format("gemm.{}.k_time", gradient_kind);
  const double uncertainty = draft.find(forwards)->relative_uncertainty.value_or(0);
  const std::string from =
      fmt::format("{} weight gradients of {}, each at its recorded clock", gradient.size(), cited_records(draft));
  draft.set(gradients, constants->k_time * ratio, "ns",
            std::hypot(of_forward.deviation, of_gradient.k_time.deviation, uncertainty), Evidence::fitted,
            fmt::format("gemm.{}.k_time times {:.3g}, the ratio to {} other GEMMs in {}", step.kind, ratio,
                        forward.size(), from));
  const std::string exponent = fmt::format("gemm.{}.memory_exponent", gradient_kind);
  draft.set(exponent, of_gradient.exponent.value, "1", of_gradient.exponent.deviation, Evidence::fitted,
            fmt::format("fitted with k_time to {}; correlation of their errors {:.2f}", from, of_gradient.correlation));
  // The time errs with that of the other GEMMs and with the exponent that was fitted with it.
  const std::string of_fit = fmt::format("fit of {}", gradients);
  const double by_fit = of_gradient.k_time.deviation, by_both = std::hypot(uncertainty, by_fit);
  Draft::Errors errors = {{of_fit, by_fit / by_both}};
  for (const auto& [number, weight] : draft.errors_of(forwards)) errors[number] = weight * uncertainty / by_both;
  draft.share(gradients, errors, by_both, gradients);
  const double with_time = of_gradient.correlation;
  draft.share(exponent, {{of_fit, with_time}, {exponent, std::sqrt(1 - with_time * with_time)}});
  return {};
}

model::Result<void> fit_attention_backward_step(Draft& draft) {
  const FitRecords& records = *TRY(draft.records());
  const auto of_kind = [&](model::OperatorKind kind) {
    return those(records.attention, [kind](const FitRecord& record) { return record.kind == kind; });
  };
  const auto backward = of_kind(model::OperatorKind::attention_grad);
  if (backward.size() < 3) return none(draft, "three records of attention backward");
  const double sms = static_cast<double>(draft.machine().device.sms), peak = draft.machine().device.bf16_peak.value();
  const auto seconds_of_phase = [&](const std::vector<FitRecord>& of, model::AttentionConstants c, bool back) {
    c.kv_bandwidth = draft.si("attention.kv_bandwidth").value_or(0);
    return vector_of(of, [&](const FitRecord& record) {
      const double length = record.extent("length"), sequences = std::max(1.0, record.extent("sequences"));
      return attention_seconds(c,
                               {.batch_heads = sequences * record.extent("heads"),
                                .kv_heads_batch = sequences * record.extent("kv_heads"),
                                .queries = length,
                                .pairs_per_query = length / 2,
                                .qk_dim = record.extent("qk_dim"),
                                .v_dim = record.extent("v_dim"),
                                .backward = back},
                               sms, sms);
    });
  };
  const double highest = environment_number(*TRY(draft.measured()), highest_mhz);
  const VectorXd measured = unthrottled(backward, highest);
  // Rows cost as many pairs as forward: few records do not determine both.
  const double pair = attention_pair([&](const std::string& of) { return draft.si(of); }).value_or(0);
  const double rows = pair > 0 ? draft.si("attention.forward.row_time").value_or(0) / pair : 0;
  const auto row_time = [&](double rate) { return rows * 2 * backward_dims / rate; };
  const Form form = [&](const VectorXd& x) {
    return seconds_of_phase(backward, {.rate = x[0], .row_time = row_time(x[0])}, true);
  };
  constexpr double share = 0.5;
  const VectorXd start = VectorXd::Constant(1, share * peak);
  const LogFit fit = log_fit(form, measured, start, {});
  const VectorXd errors = (form(fit.values).array() / measured.array() - 1).abs();
  const auto forward = of_kind(model::OperatorKind::attention);
  if (forward.empty()) return none(draft, "record of attention forward");
  const VectorXd predicted = seconds_of_phase(forward,
                                              {.rate = draft.si("attention.forward_rate").value_or(peak),
                                               .pair_time = draft.si("attention.forward.pair_time").value_or(0),
                                               .row_time = draft.si("attention.forward.row_time").value_or(0),
                                               .tail = draft.si("attention.forward.tail").value_or(0)},
                                              false);
  const VectorXd ratios = predicted.cwiseQuotient(unthrottled(forward, highest));
  const double factor = model::quantile({ratios.begin(), ratios.end()}, 0.5);
  const std::string how = fmt::format(
      "backward over forward in {} and {} records of cuDNN, each at its clock, times the "
      "forward of this profile; errors of the form up to {:.0f} % ({})",
      backward.size(), forward.size(), 100 * errors.maxCoeff(), cited_records(draft));
  const double deviation = std::max(fit.uncertainty[0], errors.mean());
  draft.set("attention.backward_rate", fit.values[0] / factor, "TFLOP/s", deviation, Evidence::fitted, how);
  draft.set("attention.backward.row_time", row_time(fit.values[0]) * factor, "ps", 2 * deviation, Evidence::assumed,
            "as many pairs as a row costs forward; " + how);
  const VectorXd held = seconds_of(forward);
  for (Eigen::Index i = 0; i < ratios.size(); ++i) {
    const FitRecord& record = forward[static_cast<std::size_t>(i)];
    draft.notes.push_back(
        fmt::format("attention forward, {} heads of {}/{}, {} tokens: {:.0f} us by public tables, taken; own "
                    "record back to back {:.0f} ({:+.0f} %), at the highest clock {:+.0f} %",
                    record.extent("heads"), record.extent("qk_dim"), record.extent("v_dim"), record.extent("length"),
                    1e6 * predicted[i], 1e6 * held[i], 100 * held[i] / predicted[i] - 100, 100 / ratios[i] - 100));
  }
  return {};
}

// The median of bytes over time, of records that move enough to be bound by memory.
model::Result<void> fit_memory_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const FitRecords& records = *TRY(draft.records());
  constexpr double enough = 64e6;
  std::vector<double> rates;
  for (const FitRecord& record : records.memory)
    if (const Measurement& m = *record.measurement;
        m.op == step.op && m.variant != "driver" && m.bytes.value_or(0) >= enough)
      rates.push_back(*m.bytes / record.seconds);
  if (rates.empty()) return none(draft, fmt::format("record of {} that moves 64 MB", step.op));
  const double middle = model::quantile(rates, 0.5);
  for (std::size_t i = 0; i < rates.size() && rates.size() > 1; ++i) {
    std::vector<double> others = rates;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    draft.memory_records.push_back(std::log(model::quantile(others, 0.5) / rates[i]));
  }
  const auto [least, most] = std::ranges::minmax(rates);
  constexpr double meter = 0.03;  // between repetitions of a record
  draft.set(step.constant, middle, "TB/s", std::max(meter, (most - least) / 2 / middle), Evidence::measured,
            fmt::format("median of {} records of {} ({})", rates.size(), step.op, cited_records(draft)));
  return {};
}

model::Result<void> fit_launch_gap_step(Draft& draft) {
  const FitRecords& records = *TRY(draft.records());
  if (records.launches.empty()) return none(draft, "record of a launch after another");
  draft.set("kernel.launch_gap", records.launches.front()->time.p50, "us", 0.1, Evidence::measured,
            fmt::format("time from an empty kernel to the next of a stream ({})", cited_records(draft)));
  return {};
}

}  // namespace plumbline::calibrate
