// The output of `plumbline plan` about deployments that serve.
#pragma once

#include <string>

#include "sim/deployment/deployment_answer.h"

namespace plumbline::reports {

std::string deployment_text(const sim::DeploymentAnswer& answer, bool color);
std::string deployment_json(const sim::DeploymentAnswer& answer);
std::string deployment_csv(const sim::DeploymentAnswer& answer);  // a row for each; for a cluster without one, why
// Draws the frontier of each option: tokens/s of a user against tokens/s of a GPU.
std::string deployment_svg(const sim::DeploymentAnswer& answer);

// Returns why an option has no deployment.
std::string why_none(const sim::DeploymentOption& option);

}  // namespace plumbline::reports
