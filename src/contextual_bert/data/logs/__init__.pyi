from .history_report import HistoryReport
from .log_settings import HistorySettings
from .transaction_logs import write_histories

__all__ = ["HistoryReport", "HistorySettings", "write_histories"]
