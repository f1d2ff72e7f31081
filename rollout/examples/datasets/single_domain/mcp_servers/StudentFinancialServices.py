"""The bursar and the aid office of Larkfield College, as a mock tool server: what a student owes, and who pays it.

Sessions, tables, argument checks and authorization come from `rollout.examples.kit`. Nothing here stores a balance: for
each term it is charges less payments less disbursed aid plus refunds, summed anew at every question. Aid that was
accepted but not yet disbursed is *anticipated*: it lowers what is due, not the balance. The clock stands still at
`NOW`. The policy beside this file forbids more than this server refuses.
"""

import uuid
from datetime import date
from typing import Literal

from rollout.examples.kit import Refusal, Row, Server, TableNames, Tools, cents, preview, tool_table

NOW = "2025-01-23T15:00:00-05:00"
TODAY = NOW[:10]
CURRENT_TERM = "2025SP"
CARD_FEE_RATE = 0.0275
CARD_LIMIT = 2000.00
DISPUTE_DAYS = 60
MAX_OPEN_APPLICATIONS = 3
TAX_YEARS = ("2022", "2023", "2024")
TAX_FORM_AVAILABLE = {"2024": "2025-01-31"}

TABLES = TableNames(
    entities=("Student", "Hold", "Term", "FeeType", "AidProgram", "Scholarship", "PlanOption"),
    relationships=(
        "Charge", "Payment", "AidAward", "PaymentPlan", "ScholarshipApplication", "Dispute", "Refund", "RefundAccount",
        "DocumentRequest",
    ),
)  # fmt: skip
PaymentMethod = Literal["bank_account", "card"]
RefundMethod = Literal["direct_deposit", "check"]
Response = Literal["accept", "decline", "reduce"]
DisputeReason = Literal["duplicate", "wrong_amount", "service_not_used", "already_paid"]
Document = Literal["1098-T", "account_statement"]
Delivery = Literal["portal", "postal"]


class FinanceTools(Tools):
    """The tools as one session may use them, on the account of the student who is authorized in it."""

    def _new_id(self) -> str:
        return str(uuid.uuid4())

    # Reading the records.

    def _totals(self, term: Row) -> Row:
        """What a term's account adds up to."""
        term_id = term["term_id"]
        charges = _sum(self._mine("Charge", term_id=term_id, status="posted"))
        payments = _sum(self._mine("Payment", term_id=term_id, status="posted"))
        refunds = _sum(self._mine("Refund", term_id=term_id))
        credited = {row["aidprogram_id"] for row in self._rows("AidProgram") if row["credits_account"]}
        accepted = self._mine("AidAward", term_id=term_id, status="accepted")
        aid = [row for row in accepted if row["aidprogram_id"] in credited]
        disbursed = _sum([row for row in aid if row["disbursed_on"]], "accepted_amount")
        anticipated = _sum([row for row in aid if not row["disbursed_on"]], "accepted_amount")
        balance = cents(charges - payments - disbursed + refunds)
        return {
            "term_id": term_id,
            "due_on": term["due_on"],
            "charges": charges,
            "payments": payments,
            "disbursed_aid": disbursed,
            "refunds": refunds,
            "balance": balance,
            "anticipated_aid": anticipated,
            "amount_due": max(cents(balance - anticipated), 0.0),
        }

    def _account(self) -> list[Row]:
        return [self._totals(term) for term in self._rows("Term")]

    def _past_due(self) -> float:
        return cents(sum(max(term["balance"], 0.0) for term in self._account() if term["due_on"] < TODAY))

    def _holds(self) -> list[Row]:
        """The student's active holds of this office. Those of other offices are in the same table."""
        return self._mine("Hold", status="active", kind="bursar")

    def _charges(self, **having: str) -> list[Row]:
        kinds = {row["feetype_id"]: row for row in self._rows("FeeType")}
        return [kinds[row["feetype_id"]] | row for row in self._mine("Charge", **having)]

    def _charge(self, charge_id: str) -> Row:
        charge = self._own("Charge", charge_id)
        if charge["status"] != "posted":
            raise Refusal(f"{charge_id} is {charge['status']} already.")
        return self._find("FeeType", charge["feetype_id"]) | charge

    def _installments(self, option: Row, amount: float) -> Row:
        """How an amount is paid off; what does not divide evenly goes into the last installment."""
        count: int = option["installments"]
        each = cents(amount / count)
        return {"total": amount, "installment_amount": each, "last_installment": cents(amount - each * (count - 1))}

    def _plan_options(self) -> list[Row]:
        due = self._totals(self._find("Term", CURRENT_TERM))["amount_due"]
        return [
            option
            | {"is_open": option["enroll_by"] >= TODAY}
            | self._installments(option, cents(due + option["setup_fee"]))
            for option in self._rows("PlanOption")
        ]

    # The rules, each a sentence that the caller can act on.

    def _require_amount(self, amount: float, most: float, what: str) -> None:
        if amount <= 0 or amount != cents(amount):
            raise Refusal("The amount must be positive, with at most two decimals.")
        if amount > most:
            raise Refusal(f"{amount:.2f} is more than {what}, which is {most:.2f}.")

    def _require_no_hold(self, blocked: str) -> None:
        for hold in self._holds():
            raise Refusal(f"An active bursar hold ({hold['hold_id']}) blocks {blocked}: {hold['reason']}")

    # The tools.

    def authorize_student(self, portal_pin: str, student_id: str | None = None, email: str | None = None) -> Row:
        return self._authorize(portal_pin, student_id=student_id, email=email and email.lower())

    def get_account_summary(self) -> Row:
        student = self._mine("Student")[0]
        shown = ("student_id", "first_name", "last_name", "mailing_address", "class_year", "major", "full_time_reason")
        account = self._account()
        accounts = self._mine("RefundAccount")
        return {
            "student": {key: student[key] for key in shown},
            "terms": account,
            "account_balance": cents(sum(term["balance"] for term in account)),
            "past_due": self._past_due(),
            "active_holds": [dict(hold) for hold in self._holds()],
            "payment_plans": [dict(plan) for plan in self._mine("PaymentPlan", status="active")],
            "plan_options": self._plan_options(),
            "refund_account": dict(accounts[0]) if accounts else None,
        }

    def list_transactions(self, term_id: str | None = None) -> Row:
        terms = [self._find("Term", term_id)] if term_id else self._rows("Term")
        wanted = {term["term_id"] for term in terms}
        return {
            "charges": [row for row in self._charges() if row["term_id"] in wanted],
            "payments": [dict(row) for row in self._mine("Payment") if row["term_id"] in wanted],
            "refunds": [dict(row) for row in self._mine("Refund") if row["term_id"] in wanted],
            "disputes": [dict(row) for row in self._mine("Dispute")],
            "document_requests": [dict(row) for row in self._mine("DocumentRequest")],
            "totals": [self._totals(term) for term in terms],
        }

    def make_payment(self, term_id: str, amount: float, method: PaymentMethod, confirm: bool = False) -> Row:
        term = self._find("Term", term_id)
        self._require_amount(amount, max(self._totals(term)["balance"], 0.0), f"the balance of {term_id}")
        returned = self._mine("Payment", method="bank_account", status="returned")
        if method == "bank_account" and returned:
            raise Refusal(f"The bank returned payment {returned[0]['payment_id']}: the student can pay by card only.")
        if method == "card" and amount > CARD_LIMIT:
            raise Refusal(f"A card payment can be {CARD_LIMIT:.2f} at most; a bank account has no limit.")
        fee = cents(amount * CARD_FEE_RATE) if method == "card" else 0.0
        payment = {"term_id": term_id, "amount": amount, "method": method, "convenience_fee": fee}
        if not confirm:
            return preview("make_payment", **payment)
        row = self._insert("Payment", **payment, paid_at=NOW, status="posted")
        return {"success": True, **row, "balance_after": self._totals(term)["balance"]}

    def waive_fee(self, charge_id: str, confirm: bool = False) -> Row:
        charge = self._charge(charge_id)
        if not charge["is_waivable"]:
            raise Refusal(f"A {charge['name']} charge cannot be waived.")
        term = self._find("Term", charge["term_id"])
        if term["waiver_deadline"] < TODAY:
            raise Refusal(f"The deadline to waive fees of {term['term_id']} passed on {term['waiver_deadline']}.")
        if not confirm:
            return preview("waive_fee", charge=charge)
        self._update("Charge", charge_id, status="waived")
        return {"success": True, "charge_id": charge_id, "balance_after": self._totals(term)["balance"]}

    def dispute_charge(self, charge_id: str, reason: DisputeReason, confirm: bool = False) -> Row:
        charge = self._charge(charge_id)
        if self._mine("Dispute", charge_id=charge_id):
            raise Refusal(f"{charge_id} has been disputed before; a charge can be disputed once.")
        age = (date.fromisoformat(TODAY) - date.fromisoformat(charge["posted_on"])).days
        if age > DISPUTE_DAYS:
            raise Refusal(f"{charge_id} was posted {age} days ago; disputes are taken for {DISPUTE_DAYS} days.")
        if not confirm:
            return preview("dispute_charge", charge=charge, reason=reason)
        return {
            "success": True,
            **self._insert("Dispute", charge_id=charge_id, reason=reason, status="open", opened_at=NOW),
        }

    def release_hold(self, hold_id: str, confirm: bool = False) -> Row:
        held = {hold["hold_id"]: hold for hold in self._holds()}
        if hold_id not in held:
            raise Refusal(f"The student has no active bursar hold '{hold_id}'.")
        past_due = self._past_due()
        if past_due > 0:
            raise Refusal(f"{past_due:.2f} is past due; the hold stays until it is paid.")
        if not confirm:
            return preview("release_hold", hold=dict(held[hold_id]))
        self._update("Hold", hold_id, status="cleared")
        return {"success": True, "hold_id": hold_id, "status": "cleared"}

    def enroll_payment_plan(self, planoption_id: str, confirm: bool = False) -> Row:
        option = self._find("PlanOption", planoption_id)
        self._require_no_hold("payment plans")
        if option["enroll_by"] < TODAY:
            raise Refusal(f"Enrollment in {planoption_id} closed on {option['enroll_by']}.")
        for plan in self._mine("PaymentPlan", term_id=CURRENT_TERM, status="active"):
            raise Refusal(f"The student already has payment plan {plan['paymentplan_id']} for {CURRENT_TERM}.")
        due = self._totals(self._find("Term", CURRENT_TERM))["amount_due"]
        if due < option["minimum_amount"]:
            raise Refusal(f"{planoption_id} needs at least {option['minimum_amount']:.2f} due; it is {due:.2f}.")
        terms = self._installments(option, cents(due + option["setup_fee"]))
        values = {"term_id": CURRENT_TERM, "planoption_id": planoption_id, **terms}
        values |= {"next_due_on": option["first_due_on"], "status": "active", "enrolled_on": TODAY}
        if not confirm:
            return preview("enroll_payment_plan", setup_fee=option["setup_fee"], **values)
        fee = {"term_id": CURRENT_TERM, "feetype_id": "PLANFEE", "amount": option["setup_fee"]}
        self._insert("Charge", **fee, posted_on=TODAY, status="posted")
        return {"success": True, **self._insert("PaymentPlan", **values)}

    def cancel_payment_plan(self, paymentplan_id: str, confirm: bool = False) -> Row:
        plan = self._own("PaymentPlan", paymentplan_id)
        if plan["status"] != "active":
            raise Refusal(f"{paymentplan_id} is {plan['status']} already.")
        totals = self._totals(self._find("Term", plan["term_id"]))
        if not confirm:
            return preview("cancel_payment_plan", plan=dict(plan), amount_due=totals["amount_due"])
        self._update("PaymentPlan", paymentplan_id, status="canceled")
        falls_due = {"amount_due": totals["amount_due"], "due_on": totals["due_on"]}
        return {"success": True, "paymentplan_id": paymentplan_id, "status": "canceled", **falls_due}

    def list_financial_aid(self, term_id: str = CURRENT_TERM) -> Row:
        self._find("Term", term_id)
        programs = {row["aidprogram_id"]: row for row in self._rows("AidProgram")}
        return {
            "awards": [programs[row["aidprogram_id"]] | row for row in self._mine("AidAward", term_id=term_id)],
            "scholarship_applications": [dict(row) for row in self._mine("ScholarshipApplication")],
            "scholarships": [row | {"is_open": row["deadline"] >= TODAY} for row in self._rows("Scholarship")],
        }

    def respond_to_award(
        self, aidaward_id: str, response: Response, amount: float | None = None, confirm: bool = False
    ) -> Row:
        award = self._own("AidAward", aidaward_id)
        program = self._find("AidProgram", award["aidprogram_id"])
        is_loan = program["kind"] == "loan"
        if award["disbursed_on"]:
            raise Refusal(f"{aidaward_id} was disbursed on {award['disbursed_on']} and cannot be changed here.")
        if award["status"] == "declined" or (award["status"], response) == ("accepted", "accept"):
            raise Refusal(f"{aidaward_id} is {award['status']} already.")
        if award["respond_by"] < TODAY:
            raise Refusal(f"The deadline to respond to {aidaward_id} passed on {award['respond_by']}.")
        if (response == "reduce") != (amount is not None):
            raise Refusal("Give an amount with the response 'reduce', and only then.")
        if response != "decline" and is_loan and not award["counseling_done"]:
            raise Refusal(f"{program['name']} needs entrance counseling, which is not on record for this student.")
        accepted: float = award["offered_amount"] if response == "accept" else amount or 0.0
        if response == "reduce":
            if not is_loan:
                raise Refusal(f"Only loans can be reduced; {program['name']} is a {program['kind'].replace('_', '-')}.")
            self._require_amount(accepted, award["accepted_amount"] or award["offered_amount"], "the award")
        change = {"status": "declined" if response == "decline" else "accepted", "accepted_amount": accepted}
        if not confirm:
            return preview("respond_to_award", award=program | award, after=change)
        self._update("AidAward", aidaward_id, **change)
        return {"success": True, "aidaward_id": aidaward_id, **change}

    def apply_for_scholarship(self, scholarship_id: str, confirm: bool = False) -> Row:
        scholarship = self._find("Scholarship", scholarship_id)
        if scholarship["deadline"] < TODAY:
            raise Refusal(f"The deadline of {scholarship_id} passed on {scholarship['deadline']}.")
        if self._mine("ScholarshipApplication", scholarship_id=scholarship_id):
            raise Refusal(f"The student has applied for {scholarship_id} already.")
        pending = [
            row for row in self._mine("ScholarshipApplication") if row["status"] in ("submitted", "under_review")
        ]
        if len(pending) >= MAX_OPEN_APPLICATIONS:
            raise Refusal(f"The student has {len(pending)} pending applications; {MAX_OPEN_APPLICATIONS} is the most.")
        if not confirm:
            return preview("apply_for_scholarship", scholarship=dict(scholarship))
        values = {"scholarship_id": scholarship_id, "status": "submitted", "submitted_at": NOW}
        return {"success": True, **self._insert("ScholarshipApplication", **values)}

    def withdraw_scholarship_application(self, scholarshipapplication_id: str, confirm: bool = False) -> Row:
        application = self._own("ScholarshipApplication", scholarshipapplication_id)
        if application["status"] != "submitted":
            raise Refusal(f"{scholarshipapplication_id} is {application['status']} and cannot be withdrawn any more.")
        if not confirm:
            return preview("withdraw_scholarship_application", application=dict(application))
        self._delete("ScholarshipApplication", scholarshipapplication_id)
        return {"success": True, "withdrawn": scholarshipapplication_id}

    def request_refund(self, term_id: str, amount: float, method: RefundMethod, confirm: bool = False) -> Row:
        term = self._find("Term", term_id)
        self._require_no_hold("refunds")
        for pending in self._mine("Refund", status="requested"):
            raise Refusal(f"Refund {pending['refund_id']} is under way; only one can be at a time.")
        credit = max(-self._totals(term)["balance"], 0.0)
        owed_elsewhere = sum(max(other["balance"], 0.0) for other in self._account() if other["term_id"] != term_id)
        self._require_amount(amount, max(cents(credit - owed_elsewhere), 0.0), "the credit that can be refunded")
        if method == "direct_deposit" and not self._mine("RefundAccount"):
            raise Refusal("There is no bank account on file for direct deposit; a check goes to the mailing address.")
        values = {"term_id": term_id, "amount": amount, "method": method, "status": "requested", "requested_at": NOW}
        if not confirm:
            return preview("request_refund", **values)
        return {"success": True, **self._insert("Refund", **values)}

    def order_document(self, document: Document, period: str, delivery: Delivery, confirm: bool = False) -> Row:
        if document == "1098-T":
            if period not in TAX_YEARS:
                raise Refusal(f"A 1098-T exists for the tax years {', '.join(TAX_YEARS)}.")
            if TAX_FORM_AVAILABLE.get(period, TODAY) > TODAY:
                raise Refusal(f"The 1098-T for {period} is available from {TAX_FORM_AVAILABLE[period]} on.")
        else:
            self._find("Term", period)
        request = {"document": document, "period": period, "delivery": delivery}
        if self._mine("DocumentRequest", **request, status="requested"):
            raise Refusal(f"This {document} for {period} has been ordered already and is under way.")
        if not confirm:
            return preview("order_document", **request)
        return {"success": True, **self._insert("DocumentRequest", **request, status="requested", requested_at=NOW)}


def _sum(rows: list[Row], column: str = "amount") -> float:
    return cents(sum(row[column] for row in rows))


TOOLS = tool_table(
    FinanceTools.authorize_student,
    FinanceTools.get_account_summary,
    FinanceTools.list_transactions,
    FinanceTools.make_payment,
    FinanceTools.waive_fee,
    FinanceTools.dispute_charge,
    FinanceTools.release_hold,
    FinanceTools.enroll_payment_plan,
    FinanceTools.cancel_payment_plan,
    FinanceTools.list_financial_aid,
    FinanceTools.respond_to_award,
    FinanceTools.apply_for_scholarship,
    FinanceTools.withdraw_scholarship_application,
    FinanceTools.request_refund,
    FinanceTools.order_document,
)


class StudentFinancialServicesServer(Server):
    """The office for any number of sessions."""

    def __init__(self, domain_name: str) -> None:
        super().__init__(domain_name, __file__, FinanceTools, TOOLS, TABLES)
