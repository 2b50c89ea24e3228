// What a plan's software has: a stack lists values of keys (docs/stacks.md), of which a search tries no others, and a
// plan with another one is predicted with a warning. It lists the rules, too, by which the software refuses layouts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan_setting.h"

namespace plumbline::model {

// What stands in a stack's list in place of the key of a plan where the list is one of rules.
inline constexpr std::string_view rules_key = "rules";

// Returns the words of all rules (model/plan/software.cc).
std::vector<std::string> software_rules();

// Returns the operators of the only selective recomputation that the plan's software has; empty: it takes their names.
std::vector<std::string> selective_operators(const Plan& plan);

// Returns the values of a list as words. A key that no stack decides about, a value that the plan would refuse and an
// unknown rule are input errors at the list's place. Only a list of rules may be empty.
Result<std::vector<std::string>> listed_values(const PlanSetting& list);

bool software_has(const Plan& plan, const std::string& key, std::string_view value);

// Returns the key whose list holds for the key: experts have the formats of all GEMMs.
std::string listed_as(std::string_view key);

// Returns whether kernels of dispatch and combine are given a number of SMs. NCCL's run on whatever SMs are free; only
// those of DeepEP and HybridEP take one.
bool dispatch_takes_sms(const Plan& plan);
// Returns a sentence where a plan gives SMs to a dispatcher that takes none.
std::vector<std::string> dispatcher_warnings(const Plan& plan);

// Returns a sentence for each value at work in the plan that its software does not have.
std::vector<std::string> software_warnings(const Plan& plan);

// Returns a sentence for each value that the plan gives and its software replaces.
std::vector<std::string> software_replacements(const Plan& plan);

// Returns whether the software computes whole experts in the kernels of their GEMMs. Transformer Engine's kernels are
// those of MXFP8 and NVFP4 (transformer_engine/pytorch/ops/fused).
bool fuses_experts(const Plan& plan);

// Returns the format of the operands of attention's GEMMs; nullopt where they stay in 16 bits.
std::optional<Precision> attention_format(const Plan& plan);

}  // namespace plumbline::model
