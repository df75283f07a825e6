"""The tab "Adaptive plan": a page inside Airflow's UI, served by its api-server.

It reads the exchange and Airflow's database, and changes neither; who may see what is Airflow's to say.
"""
