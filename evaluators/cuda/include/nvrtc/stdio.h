/* NVRTC knows printf itself. */
#pragma once
