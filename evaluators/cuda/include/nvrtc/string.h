/* NVRTC knows memcpy and memset itself. */
#pragma once
