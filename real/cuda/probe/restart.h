// Starting over after the device context was lost: within the process nothing can bring it back.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

// How often this program has already started itself over.
int restarts_so_far();
constexpr int most_restarts = 5;

// Replaces the process by the same program with the same arguments, except that the budget is what is left of it and
// that nothing is tried again that failed (it would lose the device again).
// Returns only when that fails, with the reason.
std::string restart(const std::vector<std::string>& arguments, std::optional<double> seconds_left);

}  // namespace plumbline::real::cuda
